"""Files published beside the code: manifests, workflows, templates and files for others' tools pass their schemas."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import environment
from tests.helpers.namespaces import ROOT

yaml = pytest.importorskip("yaml")
fastjsonschema = pytest.importorskip("fastjsonschema")
KUBERNETES = json.loads((ROOT / "tests/project/kubernetes.json").read_text())
MANIFESTS = sorted((ROOT / "docs/kubernetes").glob("*.yaml"))
DOCUMENTS = [(path.name, one) for path in MANIFESTS for one in yaml.safe_load_all(path.read_text())]
NEEDED = {"Job", "JobSet", "TrainJob", "TrainingRuntime", "PyTorchJob", "LeaderWorkerSet", "RayJob", "DaemonSet"}
GITHUB = {
    "vendor.github-workflows": [*(ROOT / ".github/workflows").glob("*.yml")],
    "vendor.github-issue-forms": [*(ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")],
    "vendor.github-issue-config": [ROOT / ".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


def complaint(document: Any) -> str:
    """Return what the schema of its kind has against a manifest."""
    kind = KUBERNETES["kinds"][f"{document['apiVersion']} {document['kind']}"]
    try:
        fastjsonschema.compile({**kind, "definitions": KUBERNETES["definitions"]})(document)
    except fastjsonschema.JsonSchemaValueException as err:
        return str(err)
    return ""


@pytest.mark.parametrize(("file", "document"), DOCUMENTS, ids=[f"{name}-{one['kind']}" for name, one in DOCUMENTS])
def test_a_manifest_is_what_its_operator_takes(file: str, document: Any) -> None:
    assert complaint(document) == ""


def test_each_operator_has_a_manifest_and_a_wrong_field_would_be_seen() -> None:
    kinds = {one["kind"]: one for _, one in DOCUMENTS}
    assert set(kinds) >= NEEDED
    for name in NEEDED - {"TrainJob"}:
        wrong = deepcopy(kinds[name])
        text = json.dumps(wrong).replace('"containers"', '"containerz"')
        assert "containerz" in text and complaint(json.loads(text)) != "", name
    wrong = deepcopy(kinds["TrainJob"])
    wrong["spec"]["trainer"]["numNode"] = 2
    assert "numNode" in complaint(wrong)


@pytest.mark.parametrize("schema", GITHUB)
def test_workflows_and_templates_pass_their_schemas(schema: str) -> None:
    pytest.importorskip("check_jsonschema")
    assert GITHUB[schema]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, GITHUB[schema])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    if schema.endswith("workflows") and (actionlint := shutil.which("actionlint")):
        subprocess.run([actionlint, *map(str, GITHUB[schema])], check=True)


def test_the_templates_ask_for_the_report() -> None:
    for path in GITHUB["vendor.github-issue-forms"]:
        assert "distdoctor check -o markdown" in path.read_text()


def test_a_tag_is_compared_with_the_version() -> None:
    """The version stands in one place; the workflow reads it there."""
    from distdoctor import __version__

    (line,) = re.findall(r"run: (test .*)", (ROOT / ".github/workflows/release.yml").read_text())
    for tag, status in ((f"v{__version__}", 0), ("v9.9.9", 1)):
        assert (
            subprocess.run(["sh", "-c", line], cwd=ROOT, env={**os.environ, "TAG": tag}, check=False).returncode
            == status
        )
    assert "version:" not in (ROOT / "CITATION.cff").read_text().replace("cff-version:", "")


GUIDE = (ROOT / "docs/guides/scripts.md").read_text()
EXAMPLES = [line.replace("\\|", "|") for line in re.findall(r"`(jq [^`]*) report\.json` \|", GUIDE)]


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_examples_of_json_answer_their_questions() -> None:
    """With the sample report of the documentation: two hosts whose names mean 127.0.1.1."""
    answers = []
    for line in EXAMPLES:
        command = ["sh", "-c", f"{line} docs/report.json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        answers.append(done.stdout.split("\n"))
    assert len(answers) == 10
    assert answers[0][0] == "fail" and answers[1] == ["gloo/loopback-address", ""]
    assert "127.0.1.1" in answers[2][0] and answers[3] == ["host0", "host1", ""]
    assert "GLOO_SOCKET_IFNAME" in answers[4][0] and answers[6][0].startswith("environment ")


# The DaemonSet's script, with a server in the place of Kubernetes' API.


class Api(BaseHTTPRequestHandler):
    patches: list[tuple[str, str, Any]]

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.patches.append((self.path, self.headers["Authorization"], body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def api() -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        server.patches = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(("variables", "status"), [({}, "True"), ({"GLOO_SOCKET_IFNAME": "nosuch0"}, "False")])
def test_the_daemonset_writes_the_condition_and_the_file(
    api: Any, tmp_path: Path, variables: dict[str, str], status: str
) -> None:
    documents = {one["kind"]: one for name, one in DOCUMENTS if name == "daemonset.yaml"}
    (tmp_path / "condition.py").write_text(documents["ConfigMap"]["data"]["condition.py"])
    (tmp_path / "token").write_text("secret")
    (tmp_path / "distdoctor").write_text(f'#!/bin/sh\nexec {sys.executable} -m distdoctor "$@"\n')
    (tmp_path / "distdoctor").chmod(0o755)
    (script,) = documents["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["args"]
    places = dict.fromkeys(("TEXTFILES", "TMPDIR", "SCRIPTS", "ACCOUNT"), str(tmp_path))
    path, url = f"{tmp_path}:{os.environ['PATH']}", f"http://127.0.0.1:{api.server_port}"
    env = environment(NODE="gpu07", API=url, EVERY="0", PATH=path, **places, **variables)
    once = textwrap.dedent(script).replace('sleep "$EVERY"', "exit 0")
    subprocess.run(["sh", "-c", once], env=env, check=True, timeout=120)
    ((path, authorization, body),) = api.patches
    (condition,) = body["status"]["conditions"]
    assert (path, authorization) == ("/api/v1/nodes/gpu07/status", "Bearer secret")
    assert (condition["type"], condition["status"]) == ("DistributedTraining", status), condition
    assert "distdoctor" in (tmp_path / "distdoctor.prom").read_text()
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", condition["reason"])


def test_the_dockerfile_installs_the_wheel_that_a_release_has() -> None:
    lines = (ROOT / "docs/kubernetes/Dockerfile").read_text().splitlines()
    steps = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    assert [name for name, _ in steps] == ["ARG", "FROM", "COPY", "RUN", "RUN", "CMD"]
    assert Path("dist/distdoctor-0.0-py3-none-any.whl").match(steps[2][1].split()[0])
    for name, words in steps:
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", words], check=True)


@pytest.mark.scoreboard
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a root file system of its own")
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="debootstrap is not installed")
def test_the_steps_of_the_dockerfile_run_in_a_root_file_system() -> None:
    """``make image``, with packages from Debian and where pip is set up to look."""
    done = subprocess.run(
        [sys.executable, "scripts/release.py", "--image"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and 'CMD ["distdoctor", "check"]' in done.stdout, done.stdout + done.stderr
