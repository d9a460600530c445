"""Fill the HTTP cache of rocrate-validator from local files: it then needs no network.

The RO-Crate 1.1 context comes with the `rocrate` package up to version 0.15; that of the
workflow-run vocabulary is a list of names in one namespace, and is written out here.
"""

import importlib.resources
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from requests.adapters import BaseAdapter, HTTPAdapter
from requests.models import PreparedRequest, Response
from requests_cache import CachedSession
from urllib3 import HTTPResponse

RO_CRATE = "https://w3id.org/ro/crate/1.1/context"
WORKFLOW_RUN = "https://w3id.org/ro/terms/workflow-run/context"
NAMESPACE = "https://w3id.org/ro/terms/workflow-run#"
TERMS = """
    ParameterConnection ContainerImage DockerImage SIFImage connection sourceParameter
    targetParameter md5 sha1 sha256 sha512 environment registry tag containerImage resourceUsage
"""


def fill(cache: Path) -> None:
    """Write `cache`.sqlite, the name that `--cache-path` takes without its suffix."""
    documents = _documents()
    with CachedSession(
        cache_name=str(cache),
        backend="sqlite",
        expire_after=-1,
        allowable_methods=("GET",),
        allowable_codes=(200,),
    ) as session:
        session.mount("https://", _Local(documents))
        for url in documents:
            session.get(url).raise_for_status()


def _documents() -> dict[str, bytes]:
    ro_crate = importlib.resources.files("rocrate").joinpath("data/ro-crate.jsonld").read_bytes()
    assert json.loads(ro_crate)["@id"] == RO_CRATE, "needs rocrate 0.15: later ones carry 1.3"
    workflow_run = json.dumps(
        {"@context": {term: NAMESPACE + term for term in TERMS.split()}}
    ).encode()
    return {RO_CRATE: ro_crate, WORKFLOW_RUN: workflow_run}


class _Local(BaseAdapter):
    """Answers for the network from memory."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        super().__init__()
        self._documents = documents

    def send(self, request: PreparedRequest, *_: Any, **__: Any) -> Response:
        assert request.url is not None
        body = self._documents[request.url]
        headers = {"Content-Type": "application/ld+json", "Content-Length": str(len(body))}
        raw = HTTPResponse(
            body=io.BytesIO(body), status=200, headers=headers, preload_content=False
        )
        return HTTPAdapter().build_response(request, raw)

    def close(self) -> None:
        pass
