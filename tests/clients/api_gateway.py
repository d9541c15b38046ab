"""API Gateway in front of `baton serve`, with the methods, mock responses and gateway responses of the template."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import airspeed
import jwt

from emulators.answering import Answer, Request
from tests.clients.cognito import Cognito
from tests.template.cloudformation import Stack
from tests.template.conftest import body

INTEGRATION = "x-amazon-apigateway-integration"
OWNER_HEADER = "x-baton-owner"


@dataclass
class ApiGateway:
    """A REST API with a Cognito authorizer.

    Attributes:
        base: What the paths begin with: the stage `/v1`, the base path of a custom domain, or nothing.
        upstream: The address of `baton serve`, which gets the token's `sub` in a header.
        addresses: The address on this machine of each address in the template.
        seen: The targets of all requests.
    """

    stack: Stack
    base: str
    upstream: str
    cognito: Cognito
    addresses: Mapping[str, str]
    seen: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        path = urlsplit(request.target).path
        self.seen.append(f"{request.method} {path}")
        resource = path.removeprefix(self.base)
        if not path.startswith(f"{self.base}/"):
            return Answer.json({"message": "Forbidden"}, status=403)
        method = body(self.stack)["paths"].get(resource, {}).get(request.method.lower())
        if method is None:
            return self._gateway_response("MISSING_AUTHENTICATION_TOKEN")
        owner = ""
        if method["security"]:
            [scopes] = method["security"][0].values()
            try:
                scheme, _, token = request.headers.get("authorization", "").partition(" ")
                claims = self.cognito.claims(token if scheme.lower() == "bearer" else "")
            except jwt.PyJWTError:
                return self._gateway_response("UNAUTHORIZED")
            if not set(scopes) & set(claims.get("scope", "").split()):
                return self._gateway_response("ACCESS_DENIED")
            owner = claims["sub"]
        if method[INTEGRATION]["type"] == "mock":
            return self._mock(method[INTEGRATION], path, request.headers.get("host", ""))
        return self._forward(request, resource, owner)

    def _mock(self, integration: Any, path: str, host: str) -> Answer:
        status = "200" if '"statusCode": 200' in str(integration["requestTemplates"]) else "404"
        text = integration["responses"][status]["responseTemplates"]["application/json"]
        # The template's URLs are https.
        local = {f"https://{host}": f"http://{host}"}
        document = airspeed.Template(text).merge({"context": {"domainName": host, "path": path}})
        return Answer(int(status), {"Content-Type": "application/json"}, self._here(document, local).encode())

    def _gateway_response(self, kind: str) -> Answer:
        response = body(self.stack)["x-amazon-apigateway-gateway-responses"][kind]
        headers = {
            name.partition(".header.")[2]: self._here(value.strip("'"))
            for name, value in response.get("responseParameters", {}).items()
        }
        text = response["responseTemplates"]["application/json"]
        return Answer(int(response["statusCode"]), {"Content-Type": "application/json", **headers}, text.encode())

    def _here(self, text: str, more: Mapping[str, str] | None = None) -> str:
        for address, local in {**self.addresses, **(more or {})}.items():
            text = text.replace(address, local)
        return text

    def _forward(self, request: Request, resource: str, owner: str) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.upstream).netloc)
        names = ("host", "authorization", "content-length", "connection", OWNER_HEADER)
        headers = {name: value for name, value in request.headers.items() if name not in names}
        connection.request(request.method, resource, request.body, {**headers, OWNER_HEADER: owner})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        kept = ("content-type", "mcp-session-id", "mcp-protocol-version", "allow", "content-security-policy")
        return Answer(
            response.status, {name: value for name, value in response.getheaders() if name.lower() in kept}, answer
        )
