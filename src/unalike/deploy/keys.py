"""Certificates of a consortium: one authority, one server, one for each site.

A site's name is the common name of its certificate, so a coordinator knows whom it is talking to.
Private keys are made where the command runs, and are readable by their owner alone.
"""

import ipaddress
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unalike.errors import ConfigError, RunError

AUTHORITY, SERVER = "authority", "server"
SOON = 30  # days before expiry from which a warning is given
_PLAIN = re.compile("[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")  # a name that TLS can compare


class Credentials(NamedTuple):
    """What one side of a connection shows, and whom it trusts; PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_authority(folder: Path, days: int = 3650) -> None:
    """A new authority, unless there is one."""
    if (folder / f"{AUTHORITY}.key").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("unalike authority")
    made = (
        _builder(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder, AUTHORITY, key, made)


def issue(
    folder: Path, name: str, hosts: tuple[str, ...] = (), days: int = 365, *, peer: bool = False
) -> None:
    """A new key and certificate; with ``hosts``, for a server that is reached under these.

    A ``peer`` both dials and is dialled, and is known by its name wherever it is.
    """
    if peer and not _PLAIN.fullmatch(name):
        raise ConfigError(
            f"'{name}' cannot be the name of a peer; use only letters, digits, '-' and '.'."
        )
    if not name or len(name) > 64 or name in (AUTHORITY,) or "/" in name:
        raise ConfigError(f"'{name}' cannot be the name of a site; use up to 64 letters.")
    if name == SERVER and not hosts:
        raise ConfigError("a server's certificate needs the names it is reached under; add --host.")
    authority, signer = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = (name, *hosts) if peer else hosts
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [ExtendedKeyUsageOID.CLIENT_AUTH]
    if peer:
        uses.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _builder(_name(name), authority.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(identifier, critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    _write(folder, name, key, builder.sign(signer, hashes.SHA256()))


def credentials(folder: Path, name: str) -> Credentials:
    """What a party shows; one sentence if a file is missing, expired or not of this authority."""
    parts = [folder / f"{AUTHORITY}.pem", folder / f"{name}.pem", folder / f"{name}.key"]
    for path in parts:
        if not path.is_file():
            raise RunError(f"there is no '{path}'; make it with: unalike keys {folder} {name}.")
    authority, own = (x509.load_pem_x509_certificate(p.read_bytes()) for p in parts[:2])
    try:
        own.verify_directly_issued_by(authority)
    except Exception:
        raise RunError(f"'{parts[1]}' was not issued by '{parts[0]}'; issue it again.") from None
    for path, made in zip(parts, (authority, own), strict=False):
        if not made.not_valid_before_utc <= datetime.now(UTC) <= made.not_valid_after_utc:
            raise RunError(
                f"'{path}' is valid from {made.not_valid_before_utc:%Y-%m-%d} to "
                f"{made.not_valid_after_utc:%Y-%m-%d}; make a new one with: "
                f"unalike keys {folder} {name}."
            )
    key = serialization.load_pem_private_key(parts[2].read_bytes(), None)
    if key.public_key() != own.public_key():
        raise RunError(
            f"'{parts[2]}' is not the key of '{parts[1]}'; put both files of one issue there."
        )
    # systemd hands a service its credentials in a folder that nobody else can open.
    ours = str(folder) == os.environ.get("CREDENTIALS_DIRECTORY")
    if parts[2].stat().st_mode & 0o077 and not ours:
        raise RunError(f"'{parts[2]}' can be read by others; run: chmod 600 {parts[2]}")
    raw = [path.read_bytes() for path in parts]
    return Credentials(*raw)


def checked(folder: Path) -> list[str]:
    """A line for each certificate in a folder; one sentence if any cannot be used."""
    names = sorted(path.stem for path in folder.glob("*.pem"))
    if AUTHORITY not in names:
        raise RunError(
            f"there is no '{folder / AUTHORITY}.pem'; name whom certificates are for: 'server' "
            "with --host, or sites."
        )
    lines, wrong = list[str](), list[str]()
    for name in names:
        try:
            own = folder / f"{name}.pem" if name == AUTHORITY else credentials(folder, name)
            raw = own.read_bytes() if isinstance(own, Path) else own.certificate
            left = x509.load_pem_x509_certificate(raw).not_valid_after_utc - datetime.now(UTC)
            soon = "; make a new one soon" if left.days < SOON else ""
            lines.append(f"{name}: valid for {left.days} days{soon}")
        except RunError as error:
            wrong.append(str(error))
    if wrong:
        raise RunError(" ".join(wrong))
    return lines


def vouch(own: Credentials, statement: bytes) -> bytes:
    """A signature under a statement, by the key of one's certificate."""
    key = serialization.load_pem_private_key(own.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), "as it was made"
    return key.sign(statement, ec.ECDSA(hashes.SHA256()))


def vouched(
    authority: bytes, certificate: bytes, name: str, statement: bytes, signature: bytes
) -> bool:
    """Whether a statement is signed by whom the authority knows under a name."""
    try:
        made = x509.load_pem_x509_certificate(certificate)
        made.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        (said,) = made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = made.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(signature, statement, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError, TypeError, AssertionError):
        return False
    valid = made.not_valid_before_utc <= datetime.now(UTC) <= made.not_valid_after_utc
    return said.value == name and valid


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key, made = folder / f"{AUTHORITY}.key", folder / f"{AUTHORITY}.pem"
    if not key.is_file() or not made.is_file():
        raise RunError(f"there is no authority in '{folder}'; certificates are issued where it is.")
    signer = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "as it was made"
    return x509.load_pem_x509_certificate(made.read_bytes()), signer


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, made: x509.Certificate
) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / f"{name}.key"
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
        f.write(private)
    temporary.replace(path)
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
