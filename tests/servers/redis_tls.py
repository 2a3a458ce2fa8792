"""A real Redis server that speaks TLS and wants a password, with certificates of its own. The Valkey wheel cannot do
TLS, so this is Debian's Redis, from the PATH or from .cache."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from frontdesk.errors import ConfigurationError
from tests.servers.redis import free_port, wait_until

FETCHED = Path(__file__).parents[2] / ".cache" / "redis-server"
PASSWORD = "to:the/sea?"
QUOTED = "to%3Athe%2Fsea%3F"


class TLSRedisServer:
    """Redis at `rediss://...`. With `client_certificates` it accepts only clients that show one."""

    def __init__(self, *, client_certificates: bool = False) -> None:
        self._strict = client_certificates
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = Path()
        self.port = 0

    @property
    def url(self) -> str:
        return f"rediss://:{QUOTED}@127.0.0.1:{self.port}/0?ssl_ca_certs={self.directory / 'ca.crt'}"

    @property
    def client_options(self) -> str:
        return f"&ssl_certfile={self.directory / 'one.crt'}&ssl_keyfile={self.directory / 'one.key'}"

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="frontdesk-redis-tls-"))
        self.port = free_port()
        _write_certificates(self.directory)
        program, libraries = _find_program()
        self._process = subprocess.Popen(
            [
                *(str(program), "--port", "0", "--tls-port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
                *("--requirepass", PASSWORD, "--tls-auth-clients", "yes" if self._strict else "no"),
                *(
                    "--tls-cert-file",
                    str(self.directory / "one.crt"),
                    "--tls-key-file",
                    str(self.directory / "one.key"),
                ),
                *("--tls-ca-cert-file", str(self.directory / "ca.crt"), "--dir", str(self.directory)),
            ],
            env={**os.environ, **libraries},
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until(self._answers, "Redis with TLS did not start")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and remove all it wrote."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.directory)

    def _answers(self) -> bool:
        names = {name: str(self.directory / file) for name, file in _FILES.items()}
        with redis.Redis("127.0.0.1", self.port, password=PASSWORD, ssl=True, socket_timeout=5, **names) as client:  # type: ignore[arg-type]
            return bool(client.ping())


_FILES = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "one.crt", "ssl_keyfile": "one.key"}


def _find_program() -> tuple[Path, dict[str, str]]:
    if found := shutil.which("redis-server"):
        return Path(found), {}
    program = FETCHED / "usr" / "bin" / "redis-server"
    if not program.is_file():
        raise ConfigurationError("No Redis with TLS was found: `make test` fetches one, or install redis-server")
    return program, {"LD_LIBRARY_PATH": os.pathsep.join(sorted({str(one.parent) for one in FETCHED.glob("**/*.so*")}))}


def _write_certificates(directory: Path) -> None:
    """An authority, and one certificate by it, for the server and its clients."""
    authority, key = _certificate("test authority", None)
    (directory / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    certificate, own_key = _certificate("127.0.0.1", (authority, key))
    (directory / "one.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "one.key").write_bytes(own_key.private_bytes(*plain))


def _certificate(
    name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    today = datetime.datetime.now(datetime.UTC)
    by, with_key = (subject, key) if issuer is None else (issuer[0].subject, issuer[1])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is None:
        uses = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(uses, critical=True)
    else:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(with_key, hashes.SHA256()), key
