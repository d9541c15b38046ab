"""Starts the AWS emulator, deploys to it with `sam deploy`, and copies the deployed stacks."""

import io
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx2

from tests.deployed.callers import HeaderCaller
from tests.deployed.machine import CREDENTIALS, REGION, ROOT, SAM_ENVIRONMENT, architecture, environment, free_port

SAM = SAM_ENVIRONMENT / "bin" / "sam"
SAM_LOG = ROOT / ".aws-sam" / "tests.log"
"""The output of every command that the tests run."""
READY_WITHIN_S = 180.0
COMMAND_WITHIN_S = 300
END_TIMEOUT_S = 180.0
POLL_S = 0.1
DEFAULTS = {"Architecture": architecture(), "KeyRateLimit": "50", "KeyBurstLimit": "100"}
"""Parameters of every stack. Many clients share one key, so its limits are high enough that no client waits for them.
"""
PRELUDE_END = bytes(8)
CODE_LOCATION = re.compile(r"CodeUri: s3://(\S+)/(\S+)\n      Handler: app\.lambda_handler")
"""The bucket and key of the code in the packaged template. The function and its worker have the same code."""


class CommandFailed(Exception):
    """A command failed. The message is its output."""


class NotReady(Exception):
    """A process does not answer. The message is its log."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A running AWS emulator: the URL of all its services, and its log."""

    url: str
    log: Path

    def client(self, service: str) -> Any:
        return client_of(service, self.url)

    def deploy(self, build: Path, stack: str, **parameters: str) -> "Stack":
        # The SAM CLI removes these quotes.
        overrides = [f"{name}={json.dumps(value)}" for name, value in {**DEFAULTS, **parameters}.items()]
        command = ["deploy", "--stack-name", stack, "--template-file", str(build / "template.yaml"), "--resolve-s3"]
        command += ["--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
        sam([*command, "--no-progressbar", "--parameter-overrides", *overrides], AWS_ENDPOINT_URL=self.url)
        return self.stack(stack)

    def stack(self, name: str) -> "Stack":
        return Stack(self, name, self._outputs(name))

    def _outputs(self, stack: str) -> dict[str, str]:
        [description] = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]}


@dataclass(frozen=True, slots=True)
class Stack:
    emulator: Emulator
    name: str
    outputs: Mapping[str, str]

    @property
    def endpoint(self) -> str:
        """The endpoint's URL at the emulator's address. `host` identifies the API."""
        return self.emulator.url + urlsplit(self.outputs["Url"]).path

    @property
    def host(self) -> str:
        api = urlsplit(self.outputs["Url"]).netloc.partition(".")[0]
        return f"{api}.execute-api.localhost:{urlsplit(self.emulator.url).port}"

    def copy(
        self, name: str, code: Path | None = None, change: Callable[[str], str] = str, **parameters: str
    ) -> "Stack":
        """Deploy this stack's packaged template again through CloudFormation, which is faster than `sam deploy`."""
        cloudformation, s3 = self.emulator.client("cloudformation"), self.emulator.client("s3")
        template: str = cloudformation.get_template(StackName=self.name, TemplateStage="Original")["TemplateBody"]
        [(bucket, code_key)] = set(CODE_LOCATION.findall(template))
        template = change(template)
        if code is not None:
            s3.put_object(Bucket=bucket, Key=f"{name}.zip", Body=zip_folder(code))
            template = template.replace(f"s3://{bucket}/{code_key}", f"s3://{bucket}/{name}.zip")
        s3.put_object(Bucket=bucket, Key=f"{name}.template", Body=template.encode())
        cloudformation.create_stack(
            StackName=name,
            TemplateURL=f"{self.emulator.url}/{bucket}/{name}.template",
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in {**DEFAULTS, **parameters}.items()
            ],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        attempts = round(READY_WITHIN_S / POLL_S)
        waiter = cloudformation.get_waiter("stack_create_complete")
        waiter.wait(StackName=name, WaiterConfig={"Delay": POLL_S, "MaxAttempts": attempts})
        return self.emulator.stack(name)

    @property
    def worker(self) -> str:
        """The name of the worker function, which runs background tasks."""
        return self.outputs["Worker"].split(":")[6]

    @property
    def api_key(self) -> str:
        [key] = self.resources("AWS::ApiGateway::ApiKey").values()
        value: str = self.emulator.client("apigateway").get_api_key(apiKey=key, includeValue=True)["value"]
        return value

    def caller(self, **headers: str) -> HeaderCaller:
        """Return a caller with these headers. In their names, an underscore stands for a hyphen."""
        return HeaderCaller({"Host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}})

    def invoke(self, event: str) -> dict[str, Any]:
        """Invoke the function with an event. Return the streamed response: status, headers and body."""
        aws_lambda, name = self.emulator.client("lambda"), self.outputs["FunctionName"]
        payload = aws_lambda.invoke(FunctionName=name, Qualifier="live", Payload=event)["Payload"].read()
        head, end, body = payload.partition(PRELUDE_END)
        assert end, payload
        return {**json.loads(head), "body": body.decode()}

    def resources(self, kind: str) -> dict[str, str]:
        """Return the physical ids of the stack's resources of this type, by logical id."""
        response = self.emulator.client("cloudformation").describe_stack_resources(StackName=self.name)
        resources = [resource for resource in response["StackResources"] if resource["ResourceType"] == kind]
        return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}


@dataclass(frozen=True, slots=True)
class ProbeSource(Stack):
    """A stack whose copies run the code in `code`. Their names end in `-probe`."""

    code: Path

    def copy(self, name: str, code: Path | None = None, change: Callable[[str], str] = str, **parameters: str) -> Stack:
        return Stack.copy(self, f"{name}-probe", self.code if code is None else code, change, **parameters)


@contextmanager
def running_emulator(log: Path, docker_flags: str = "") -> Iterator[Emulator]:
    """Run the emulator on a free port. Its containers get these `docker run` flags and stop with it."""
    port = free_port()
    settings = {
        "GATEWAY_PORT": str(port),
        "LAMBDA_EXECUTOR": "docker",
        # Fail instead of running a function outside a container.
        "LAMBDA_STRICT": "1",
        # Seconds. The default of ten is too short when a slow disk starts sixteen containers at once.
        "MINISTACK_DOCKER_TIMEOUT": "120",
        "LAMBDA_DOCKER_FLAGS": docker_flags,
        # Seconds. Tests read a container's logs long after its last invocation.
        "LAMBDA_WARM_TTL_SECONDS": "7200",
        "IOT_MTLS_ENABLED": "0",
        # Check signatures and policies: those of callers, and what the function's role may do.
        "AUTH": "true",
    }
    command = [sys.executable, str(Path(__file__).with_name("emulator.py"))]
    url = f"http://127.0.0.1:{port}"
    with running(command, log, **settings) as process:
        await_ready(process, f"{url}/_ministack/health", log, is_ready=lambda response: response.is_success)
        yield Emulator(url, log)


@contextmanager
def running(command: Sequence[str], log: Path, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process and write its output to `log`. Terminate it at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(**variables), stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(END_TIMEOUT_S)


def await_ready(
    process: "subprocess.Popen[bytes]",
    url: str,
    log: Path,
    within_s: float = READY_WITHIN_S,
    is_ready: Callable[[httpx2.Response], bool] = lambda _: True,
) -> None:
    """Wait until a process answers at this URL."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s and process.poll() is None:
        try:
            if is_ready(httpx2.get(url)):
                return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise NotReady(log.read_text())


def sam(arguments: list[str], folder: Path = ROOT, **variables: str) -> str:
    """Run the SAM CLI in a folder until it ends. Return its output."""
    return run([str(SAM), *arguments], folder, variables)


def run(
    command: Sequence[str | Path],
    folder: Path = ROOT,
    variables: Mapping[str, str] = MappingProxyType({}),
    within_s: float = COMMAND_WITHIN_S,
) -> str:
    """Run a command in a folder until it ends. Return its output."""
    process = subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
    )
    with SAM_LOG.open("a") as log:
        log.write(f"{' '.join(map(str, command))}\n{process.stderr}{process.stdout}\n")
    if process.returncode != 0:
        raise CommandFailed(process.stdout + process.stderr)
    return process.stdout


def client_of(service: str, url: str) -> Any:
    key, secret = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    # boto3's types depend on the literal name of the service, which is a variable here.
    create: Any = boto3.client
    return create(service, endpoint_url=url, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret)


def zip_folder(folder: Path) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
        return file.getvalue()
