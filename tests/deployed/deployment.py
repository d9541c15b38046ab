"""The twin as a process, `sam deploy` to it, and copies of what that deployed."""

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
"""What every command of the tests said."""
READY_WITHIN_S = 180.0
COMMAND_WITHIN_S = 300
ENDED_WITHIN_S = 180.0
POLL_S = 0.1
USUAL = {"Architecture": architecture(), "KeyRateLimit": "50", "KeyBurstLimit": "100"}
"""Parameters of every stack. One key is for many clients at once, none of which waits a second because of it."""


PRELUDE_END = bytes(8)
PACKAGED = re.compile(r"CodeUri: s3://(\S+)/(\S+)\n      Handler: app\.lambda_handler")
"""Where the code of the function and its worker is, which is the same: a bucket and a key."""


class CommandFailed(Exception):
    """A command stopped with an error; its text is what it said."""


class NotReady(Exception):
    """What was started does not answer; its text is its log."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A running twin of AWS: where all its services listen, and what it prints."""

    url: str
    log: Path

    def client(self, service: str) -> Any:
        return client_of(service, self.url)

    def deploy(self, build: Path, stack: str, **parameters: str) -> "Stack":
        """Deploy what was built, as `sam deploy` does it.

        Args:
            build: The folder with the build.
            stack: The name of the stack.
            parameters: What differs from the template's defaults.

        Raises:
            CommandFailed: the deployment failed.
        """
        # In the quotes that the SAM CLI takes off.
        overrides = [f"{name}={json.dumps(value)}" for name, value in {**USUAL, **parameters}.items()]
        command = ["deploy", "--stack-name", stack, "--template-file", str(build / "template.yaml"), "--resolve-s3"]
        command += ["--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
        sam([*command, "--no-progressbar", "--parameter-overrides", *overrides], AWS_ENDPOINT_URL=self.url)
        return self.stack(stack)

    def stack(self, name: str) -> "Stack":
        return Stack(self, name, self._outputs(name))

    def _outputs(self, stack: str) -> dict[str, str]:
        [described] = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployed stack."""

    twin: Twin
    name: str
    outputs: Mapping[str, str]

    @property
    def endpoint(self) -> str:
        """The endpoint's URL, at the twin's address; `host` says which API it is."""
        return self.twin.url + urlsplit(self.outputs["Url"]).path

    @property
    def host(self) -> str:
        api = urlsplit(self.outputs["Url"]).netloc.partition(".")[0]
        return f"{api}.execute-api.localhost:{urlsplit(self.twin.url).port}"

    def copy(
        self, name: str, code: Path | None = None, change: Callable[[str], str] = str, **parameters: str
    ) -> "Stack":
        """Deploy what `sam` packaged for this stack once more, through CloudFormation: `sam` takes seconds for it.

        Args:
            name: The new stack's.
            code: A folder with other code for the function and its worker.
            change: What becomes of the template's text.
            parameters: What differs from the template's defaults.
        """
        cloudformation, s3 = self.twin.client("cloudformation"), self.twin.client("s3")
        template: str = cloudformation.get_template(StackName=self.name, TemplateStage="Original")["TemplateBody"]
        [(bucket, packaged)] = set(PACKAGED.findall(template))
        template = change(template)
        if code is not None:
            s3.put_object(Bucket=bucket, Key=f"{name}.zip", Body=zipped(code))
            template = template.replace(f"s3://{bucket}/{packaged}", f"s3://{bucket}/{name}.zip")
        s3.put_object(Bucket=bucket, Key=f"{name}.template", Body=template.encode())
        cloudformation.create_stack(
            StackName=name,
            TemplateURL=f"{self.twin.url}/{bucket}/{name}.template",
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in {**USUAL, **parameters}.items()
            ],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        attempts = round(READY_WITHIN_S / POLL_S)
        created = cloudformation.get_waiter("stack_create_complete")
        created.wait(StackName=name, WaiterConfig={"Delay": POLL_S, "MaxAttempts": attempts})
        return self.twin.stack(name)

    @property
    def worker(self) -> str:
        """The name of the function that works on background tasks."""
        return self.outputs["Worker"].split(":")[6]

    @property
    def api_key(self) -> str:
        [key] = self.resources("AWS::ApiGateway::ApiKey").values()
        value: str = self.twin.client("apigateway").get_api_key(apiKey=key, includeValue=True)["value"]
        return value

    def caller(self, **headers: str) -> HeaderCaller:
        """Somebody who calls with these headers, an underscore for each hyphen."""
        return HeaderCaller({"Host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}})

    def invoke(self, event: str) -> dict[str, Any]:
        """What the function streams in answer to this event: status, headers and body."""
        aws_lambda, name = self.twin.client("lambda"), self.outputs["FunctionName"]
        answer = aws_lambda.invoke(FunctionName=name, Qualifier="live", Payload=event)["Payload"].read()
        head, end, body = answer.partition(PRELUDE_END)
        assert end, answer
        return {**json.loads(head), "body": body.decode()}

    def resources(self, kind: str) -> dict[str, str]:
        """The physical ids of the stack's resources of this kind, by logical id."""
        cloudformation = self.twin.client("cloudformation")
        listed = cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed if one["ResourceType"] == kind}


@dataclass(frozen=True, slots=True)
class ProbeSource(Stack):
    """A stack whose copies have the code in a folder, a bucket for large results, and names of their own."""

    code: Path

    def copy(self, name: str, code: Path | None = None, change: Callable[[str], str] = str, **parameters: str) -> Stack:
        chosen = {"Overflow": "on", **parameters}
        return Stack.copy(self, f"{name}-probe", self.code if code is None else code, change, **chosen)


@contextmanager
def running_workflow_tool(log: Path, docker_flags: str = "") -> Iterator[Twin]:
    """A twin on a port of its own; its containers, started with these flags of `docker run`, go when it goes.

    Raises:
        NotReady: it does not answer.
    """
    port = free_port()
    own = {
        "GATEWAY_PORT": str(port),
        "LAMBDA_EXECUTOR": "docker",
        # In a container or not at all.
        "LAMBDA_STRICT": "1",
        # Seconds. Sixteen containers at once take a slow disk longer than the ten that it would wait.
        "MINISTACK_DOCKER_TIMEOUT": "120",
        "LAMBDA_DOCKER_FLAGS": docker_flags,
        # Seconds. Tests read what a container said long after it was last called.
        "LAMBDA_WARM_TTL_SECONDS": "7200",
        "IOT_MTLS_ENABLED": "0",
        # Signatures and policies are checked: those of callers, and of what the function's role may do.
        "AUTH": "true",
    }
    command = [sys.executable, str(Path(__file__).with_name("twin.py"))]
    url = f"http://127.0.0.1:{port}"
    with running(command, log, **own) as process:
        await_ready(process, f"{url}/_ministack/health", log, until=lambda answer: answer.is_success)
        yield Twin(url, log)


@contextmanager
def running(command: Sequence[str], log: Path, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that says what it says in this log, while this lasts."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(**more), stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(ENDED_WITHIN_S)


def await_ready(
    process: "subprocess.Popen[bytes]",
    url: str,
    log: Path,
    within_s: float = READY_WITHIN_S,
    until: Callable[[httpx2.Response], bool] = lambda _: True,
) -> None:
    """Wait until a process answers at this URL.

    Raises:
        NotReady: it does not, or not in time.
    """
    stop = time.monotonic() + within_s
    while time.monotonic() < stop and process.poll() is None:
        try:
            if until(httpx2.get(url)):
                return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise NotReady(log.read_text())


def sam(arguments: list[str], folder: Path = ROOT, **more: str) -> str:
    """Run the SAM CLI in a folder to its end; what it printed.

    Raises:
        CommandFailed: it failed.
    """
    return run([str(SAM), *arguments], folder, more)


def run(
    command: Sequence[str | Path],
    folder: Path = ROOT,
    variables: Mapping[str, str] = MappingProxyType({}),
    within_s: float = COMMAND_WITHIN_S,
) -> str:
    """Run a command in a folder to its end; what it printed.

    Raises:
        CommandFailed: it failed.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
    )
    with SAM_LOG.open("a") as log:
        log.write(f"{' '.join(map(str, command))}\n{done.stderr}{done.stdout}\n")
    if done.returncode != 0:
        raise CommandFailed(done.stdout + done.stderr)
    return done.stdout


def client_of(service: str, url: str) -> Any:
    key, secret = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    # Typed for services by their names; which one it is, is known where it is used.
    make: Any = boto3.client
    return make(service, endpoint_url=url, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret)


def zipped(folder: Path) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
        return file.getvalue()
