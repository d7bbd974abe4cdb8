"""Variables for certificates and proxies that lead nowhere."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme

from gaia_bridge_desk.doctor.network import CERTIFICATES, PROXIES
from tests.desk.doctor.looking import bad, by_id, look

FILES = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]


def paths(folder: str) -> SimpleNamespace:
    """Where OpenSSL looks."""
    return SimpleNamespace(openssl_cafile=f"{folder}/cert.pem", openssl_capath=folder)


@pytest.fixture
def authority(tmp_path: Path) -> str:
    """A file with a certificate."""
    path = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return str(path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_certificates_is_fine_and_others_are_found(name: str, authority: str, tmp_path: Path) -> None:
    assert bad(look(CERTIFICATES, environ={name: authority})) <= {"ca.no-store"}
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("x", encoding="utf-8")
    cases = {str(tmp_path / "nowhere"): "ca.missing", str(nonsense): "ca.invalid"}
    if name != "REQUESTS_CA_BUNDLE":  # which may be a folder
        cases[str(tmp_path)] = "ca.unreadable"
    for path, id_ in cases.items():
        finding = by_id(look(CERTIFICATES, environ={name: path}))[id_]
        assert finding.about == name and path in finding.message


def test_a_folder_of_certificates_that_is_none_is_found(tmp_path: Path) -> None:
    assert bad(look(CERTIFICATES, environ={"SSL_CERT_DIR": f"{tmp_path}:{tmp_path}/no"})) == {"ca.missing"}


def test_a_system_without_certificates_is_found(monkeypatch: pytest.MonkeyPatch, authority: str) -> None:
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths("/nowhere"))
    assert bad(look(CERTIFICATES, environ={})) == {"ca.no-store"}
    assert set(by_id(look(CERTIFICATES, environ={"SSL_CERT_FILE": authority}))) == {"ca.fine"}


def refused(path: str) -> list[str]:
    raise PermissionError(errno.EACCES, "Permission denied", path)


def test_certificates_of_the_system_that_cannot_be_read_are_found_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: str
) -> None:
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths(str(tmp_path)))
    monkeypatch.setattr(os, "listdir", refused)
    finding = by_id(look(CERTIFICATES, environ={}))["ca.store-unreadable"]
    assert finding.message == f"{tmp_path} cannot be read: Permission denied"
    assert finding.remedy == f"sudo chmod a+rX {tmp_path}"
    real = os.access

    def access(path: str | Path, mode: int) -> bool:
        return path != tmp_path.parent and real(path, mode)

    monkeypatch.setattr(os, "access", access)
    assert by_id(look(CERTIFICATES, environ={}))["ca.store-unreadable"].remedy == f"sudo chmod a+rX {tmp_path.parent}"
    assert set(by_id(look(CERTIFICATES, environ={"SSL_CERT_FILE": authority}))) == {"ca.fine"}


def test_a_folder_of_certificates_that_cannot_be_read_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def access(path: str, mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", access)
    assert "ca.unreadable" in bad(look(CERTIFICATES, environ={"SSL_CERT_DIR": str(tmp_path)}))


def test_verification_that_is_switched_off_is_found() -> None:
    assert "ca.unchecked" in bad(look(CERTIFICATES, environ={"NODE_TLS_REJECT_UNAUTHORIZED": "0"}))
    assert "ca.unchecked" not in bad(look(CERTIFICATES, environ={"NODE_TLS_REJECT_UNAUTHORIZED": "1"}))


def test_no_proxy_is_fine() -> None:
    assert set(by_id(look(PROXIES, environ={}))) == {"proxy.none"}


def test_a_proxy_that_answers_is_fine_and_one_that_does_not_is_found_without_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"http://me:hunter22@127.0.0.1:{port}"
        environ = {"HTTPS_PROXY": url, "no_proxy": "localhost,127.0.0.1"}
        assert set(by_id(look(PROXIES, environ=environ))) == {"proxy.fine"}
    found = look(PROXIES, environ=environ)
    assert bad(found) == {"proxy.deaf"} and "hunter22" not in repr(found)
    assert set(by_id(look(PROXIES, environ=environ, offline=True))) == {"proxy.fine"}


def test_a_proxy_that_is_no_address_is_found_and_not_shown() -> None:
    for value in ("ftp://x:1", "http://a b", "http://x:port"):
        found = look(PROXIES, environ={"http_proxy": value}, offline=True)
        assert "proxy.invalid" in bad(found) and value not in repr(found)


def test_a_proxy_for_this_machine_too_is_found() -> None:
    for none in ("", "example.com"):
        assert bad(look(PROXIES, environ={"HTTP_PROXY": "p:1", "NO_PROXY": none}, offline=True)) == {"proxy.loopback"}
    for round_ in ("*", "localhost", "x, 127.0.0.1", "127.0.0.0/8", ".localhost", "[::1]"):
        assert bad(look(PROXIES, environ={"HTTP_PROXY": "p:1", "NO_PROXY": round_}, offline=True)) == set()


def test_a_proxy_that_the_bridge_does_not_speak_to_is_found() -> None:
    found = look(PROXIES, environ={"ALL_PROXY": "socks5://me:hunter22@p:1"}, offline=True)
    assert bad(found) == {"proxy.socks"} and "hunter22" not in repr(found)
