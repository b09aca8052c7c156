"""An S3 server that checks rights: users with policies, as Amazon's own IAM takes them."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

import servers
from server_process import Server, Unavailable, free_port, start, tool

REGION = "us-east-1"


@dataclass(frozen=True)
class GuardedS3:
    """A gateway and the IAM service that it asks."""

    gateway: Server
    iam_port: int

    def add_user(self, name: str, policy: str | None = None) -> dict[str, str]:
        """Make a user who may do what the policy says, and return his storage options."""
        self._ask(Action="CreateUser", UserName=name)
        if policy is not None:
            document = {"PolicyName": "deltasql", "PolicyDocument": policy}
            self._ask(Action="PutUserPolicy", UserName=name, **document)
        answer = self._ask(Action="CreateAccessKey", UserName=name)
        key, secret = (
            re.search(rf"<{part}>([^<]+)<", answer)[1]
            for part in ("AccessKeyId", "SecretAccessKey")
        )
        return self.root | {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}

    @property
    def root(self) -> dict[str, str]:
        """The storage options of whoever may do everything."""
        return servers.s3_options(self.gateway.endpoint)

    def _ask(self, **words: str) -> str:
        body = urlencode({**words, "Version": "2010-05-08"})
        connection = http.client.HTTPConnection("127.0.0.1", self.iam_port, timeout=10)
        try:
            headers = _signed(f"127.0.0.1:{self.iam_port}", body, datetime.now(UTC))
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise Unavailable(f"IAM answered {words['Action']} with {answer.status}: {text}")
        return text


def start_guarded_s3() -> GuardedS3:
    """Start versitygw's IAM service and a gateway that asks it before every request."""
    iam_port, port = free_port(), free_port()
    program = tool("versitygw")
    words = f"--quiet --access {servers.ACCESS} --secret {servers.SECRET} --region {REGION}"
    asked = f"{words} --port 127.0.0.1:{iam_port} iam --dir {{files}} --private-ports {{files}}/s"
    iam = start([program, *asked.split()], iam_port)
    words += f" --keep-alive --port 127.0.0.1:{port} --iam-cache-disable"
    words += f" --iam-standalone-endpoint {iam.files}/s posix {{files}}"
    try:
        gateway = start([program, *words.split()], port)
    except Unavailable:
        iam.stop()
        raise
    gateway.parts = (iam,)
    (gateway.files / servers.BUCKET).mkdir()
    return GuardedS3(gateway, iam_port)


def _signed(host: str, body: str, now: datetime) -> dict[str, str]:
    """Return the headers of a POST to IAM, signed by AWS's Signature Version 4."""
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = hashlib.sha256(body.encode()).hexdigest()
    kind = "application/x-www-form-urlencoded"
    headers = {"content-type": kind, "host": host, "x-amz-content-sha256": digest}
    headers["x-amz-date"] = moment
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n/\n\n{lines}\n{names}\n{digest}"
    scope = f"{day}/{REGION}/iam/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{servers.SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={servers.ACCESS}/{scope}, SignedHeaders={names}, "
        f"Signature={signature}"
    )
    return headers
