from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kcm_lite
from kcm_lite.api.yaml import dump
from kcm_lite.cli import main
from kcm_lite.sim.simulate import Meter, shortened, write_file
from tests.golden.replay import OWN
from tests.sim_support import deployment, pod, replica_set

Capture = pytest.CaptureFixture[str]


def write(path: Path, *documents: Any) -> str:
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return str(path)


def call(capsys: Capture, *args: str) -> tuple[int, str, str]:
    code = main(["simulate", *args])
    out, err = capsys.readouterr()
    return code, out, err


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {}}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "api"}}


def test_a_manifest_gives_a_timeline_and_the_final_state(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "web.yaml", SERVICE, replica_set(3), pod(), WIDGET)
    code, out, err = call(capsys, path)
    assert (code, err) == (0, "")
    assert "default  (3 nodes, seed 0, client limits 20/30)" in out
    assert "00:02.0  ReplicaSet/web: 3 pods ready" in out
    assert "stored, not simulated: Service/web, Widget/api\n" in out
    assert "after 01:00.0" in out
    assert "NAME   DESIRED   CURRENT   READY   AGE\nweb    3         3         3       60s" in out
    assert out.endswith("ReplicaSet/web is complete\n")
    assert max(map(len, out.splitlines())) < 100


def test_a_directory_and_standard_input(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.yaml", replica_set(1, name="a"))
    write(tmp_path / "b.yml", replica_set(1, name="b"))
    (tmp_path / "notes.txt").write_text("no manifest")
    monkeypatch.setattr("sys.stdin", io.StringIO(dump(replica_set(1, name="c"))))
    code, out, _ = call(capsys, str(tmp_path), "-")
    assert code == 0
    for name in "abc":
        assert f"ReplicaSet/{name} is complete" in out


def test_a_golden_scenario_runs_unchanged(capsys: Capture) -> None:
    code, out, _ = call(capsys, str(OWN / "scenarios" / "rs-down-notready.yaml"))
    assert code == 0
    assert out.startswith("rs-down-notready: victim: the Running pod that is not ready  (3 nodes")
    assert "client limits 1000/1000" in out
    assert "00:08.0  ReplicaSet/web: 1 pod being deleted (replicaset-controller)" in out


def scenario(tmp_path: Path, **raw: Any) -> str:
    return write(tmp_path / "scenario.yaml", {"id": "s", "until": 10, **raw})


def test_a_case_says_what_it_teaches(tmp_path: Path, capsys: Capture) -> None:
    text = "{id: a, until: 1, objects: [], release: '1.22', lesson: Look., reference: a colleague}"
    (tmp_path / "case.yaml").write_text(text)
    assert main(["simulate", str(tmp_path / "case.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(", release 1.22)")
    assert lines[-3:] == ["Look.", "", "reported: a colleague"]


def test_a_scenario_goes_with_manifests(tmp_path: Path, capsys: Capture) -> None:
    manifest = write(tmp_path / "web.yaml", replica_set(3))
    scale = {"at": 5, "do": "scale", "kind": "rs", "name": "web", "replicas": 1}
    plan = scenario(tmp_path, actions=[scale], nodes=1, seed=3)
    code, out, _ = call(capsys, manifest, "--scenario", plan)
    assert code == 0
    assert "s  (1 node, seed 3, client limits 1000/1000)" in out
    assert "user sets spec.replicas 3 -> 1" in out
    code, _, err = call(capsys, plan, "--scenario", manifest)
    assert code == 2 and "kind: a scenario has none: this is a manifest" in err


def test_options_win_over_the_scenario(tmp_path: Path, capsys: Capture) -> None:
    plan = scenario(tmp_path, objects=[replica_set(2)], nodes=1)
    args = ("--until", "2m", "--seed", "9", "--nodes", "5", "--qps", "7", "--burst", "8")
    code, out, _ = call(capsys, plan, *args)
    assert code == 0
    assert "s  (5 nodes, seed 9, client limits 7/8)" in out and "after 02:00.0" in out
    assert "client limits none" in call(capsys, plan, "--qps", "0")[1]


def test_an_end_before_what_is_expected_is_refused(tmp_path: Path, capsys: Capture) -> None:
    plan = scenario(tmp_path, expect=[{"at": 8, "pods": {}, "count": 0}])
    assert call(capsys, plan, "--until", "8")[0] == 0
    code, out, err = call(capsys, plan, "--until", "7")
    assert (code, out) == (2, "") and "expect[0].at: is after the end of the run (until" in err


def test_a_failed_expectation_is_exit_1_with_what_happened_around_it(
    tmp_path: Path, capsys: Capture
) -> None:
    plan = scenario(
        tmp_path,
        objects=[replica_set(3)],
        expect=[
            {"within": 5, "pods": {"ready": True}, "count": 3},
            {"always": [3, 10], "pods": {"ready": True}, "atLeast": 3},
        ],
        actions=[{"at": 6, "do": "deletePod", "pick": "oldest"}],
    )
    code, out, err = call(capsys, plan)
    assert (code, err) == (1, "")
    place = out.index("FAILED expect[1] (always: [3, 10], pods: {ready: true}, atLeast: 3)")
    report = out[place:]
    assert "no more at 00:07.0, found 2" in report
    assert "    00:06.0  ReplicaSet/web: 1 pod being deleted (user)" in report
    assert out.endswith("1 of 2 expectations held\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\napiVersion: v1\n", "bad.yaml: document 1, line 1: metadata: got null"),
        (
            "---\na: b\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  nmae: y\n",
            'line 8: metadata.nmae: unknown field (did you mean "name"?)',
        ),
        (
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x}\nspec: {replica: 1}\n",
            'line 4: spec.replica: unknown field (did you mean "replicas"?)\n',
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
            "spec:\n  containers:\n  - {name: c, imagePullPolcy: Always}\n",
            'line 6: spec.containers[0].imagePullPolcy: unknown field (did you mean "imagePullP',
        ),
        (
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x}\n"
            "spec: {replicas: 99999999999}\n",
            "a number between -2147483648 and 2147483647, got 99999999999\n",
        ),
        (
            "apiVersion: apps/v1\nkind: Deploymet\nmetadata: {name: x}\n",
            'line 2: kind: no matches for kind "Deploymet" in version "apps/v1" (did you mean "De',
        ),
        (
            "apiVersion: v1\nkind: deployment\nmetadata: {name: x}\n",
            'kind "deployment" in version "v1" (did you mean "Deployment"?)',
        ),
        (
            "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: x}\n",
            'kind "Deployment" in version "extensions/v1beta1" (it is in apps/v1)',
        ),
        (
            "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: x}\n",
            'kind "CronJob" in version "batch/v1beta1" (it is in batch/v1)',
        ),
        ("a: [", "bad.yaml: document 1, line 2"),
        ("- 1\n", "bad.yaml: document 1, line 1: expected a map, got list"),
        ("", "bad.yaml: nothing to simulate in it"),
        (
            "id: x\nuntil: soon\n",
            'bad.yaml: document 1, line 2: until: got "soon", want seconds or',
        ),
        (
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x}\nspec: {replicas: many}\n",
            'line 4: spec.replicas: expected int, got str ("many")',
        ),
        (
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x}\nspec: {replicas: 1}\n",
            "line 4: spec.template.spec.containers: Required value",
        ),
        (
            "id: x\nuntil: 9\nactions:\n- {at: 1, do: scale, kind: rs, name: w, replicas: 1}\n",
            'actions[0] (scale at 1): replicasets.apps "w" not found',
        ),
        ("id: x\nuntil: 9\n---\nid: y\nuntil: 9\n", "only one scenario can be run at a time"),
    ],
)
def test_bad_input_is_exit_2_and_leaves_nothing(
    tmp_path: Path, capsys: Capture, text: str, message: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    page, data = tmp_path / "o.html", tmp_path / "o.json"
    code, out, err = call(
        capsys, str(tmp_path / "bad.yaml"), "--json", str(data), "--html", str(page)
    )
    assert (code, out) == (2, "")
    assert message in err
    assert all(line.startswith("kcm-lite: ") for line in err.splitlines())
    assert not page.exists() and not data.exists()


def test_all_bad_documents_are_named_at_once(tmp_path: Path, capsys: Capture) -> None:
    one = {**pod("a"), "spec": {"containers": 1}}
    two = {**pod("b"), "spec": {"containers": 2}}
    code, _, err = call(capsys, write(tmp_path / "x.yaml", one, pod("c"), two))
    assert code == 2
    heads = [line.split(", line")[0] for line in err.splitlines()]
    assert [h.rpartition(": ")[2] for h in heads] == ["document 1", "document 3"]


def test_files_that_are_not_there(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = call(capsys, str(tmp_path / "none.yaml"))
    assert code == 2 and "none.yaml: No such file or directory" in err
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, err = call(capsys, str(empty))
    assert code == 2 and "no file named *.yaml" in err


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [("no/o", "No such file or directory"), ("dir", "Is a directory"), ("a/b", "No such file")],
)
def test_a_target_that_cannot_be_written_is_told_before_the_run(
    tmp_path: Path, capsys: Capture, option: str, name: str, problem: str
) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "a").write_text("a file")
    target = str(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = call(capsys, write(tmp_path.parent / "w.yaml", pod()), option, target)
    assert (code, out) == (2, "")
    assert err.startswith(f"kcm-lite: {target}: {problem}")
    assert sorted(tmp_path.rglob("*")) == before
    assert call(capsys, str(tmp_path.parent / "w.yaml"), option, "")[0] == 2


def test_a_file_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, **_: Any) -> None:
        self.touch()
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match=r"o\.json") as caught:
        write_file(str(tmp_path / "o.json"), "text")
    assert caught.value.filename == str(tmp_path / "o.json")
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_written_to_and_a_link_is_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("pipe", "link"):
        write_file(str(tmp_path / name), "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text() == "text"


def test_json_on_standard_output_is_alone_there(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "web.yaml", deployment(2))
    code, out, err = call(capsys, path, "--json", "-", "--explain", "deploy/web")
    assert code == 0 and json.loads(out)["ok"] is True
    assert "Deployment/web finished" in err and "\nDeployment/web\n" in err
    code, out, err = call(capsys, path, "--json", "-", "--html", "-")
    assert (code, out) == (2, "") and "only one of them" in err


@pytest.mark.parametrize(
    ("redirect", "code", "message"),
    [(">/dev/full", 2, "kcm-lite: standard output: No space left on device\n"), (">&-", 0, "")],
)
def test_an_output_that_takes_nothing(
    tmp_path: Path, redirect: str, code: int, message: str
) -> None:
    path = write(tmp_path / "web.yaml", pod())
    command = f"{sys.executable} -m kcm_lite.cli simulate {path} {redirect}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--until", "soon"], 'got "soon", want seconds or a duration such as 90, 90s, 5m, 1h30m'),
        (["--nodes", "-1"], 'got "-1", want a whole number from 0 to 5000'),
        (["--nodes", "1000000000"], 'got "1000000000", want a whole number from 0 to 5000'),
        (["--burst", "0"], 'got "0", want a whole number >= 1'),
        (["--seed", "x"], 'got "x", want a whole number >= 0'),
        (["--qps", "nan"], 'got "nan", want a number >= 0'),
        (["--frobnicate"], "unrecognized arguments"),
    ],
)
def test_bad_options(tmp_path: Path, capsys: Capture, args: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", write(tmp_path / "web.yaml", pod()), *args])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_json_holds_the_run(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "o.json"
    plan = scenario(tmp_path, objects=[replica_set(2), SERVICE], expect=[{"pods": {}, "count": 2}])
    assert call(capsys, plan, "--json", str(target))[0] == 0
    document = json.loads(target.read_text())
    assert document["ok"] is True and document["until"] == 10
    assert document["timeline"][0] == {
        "t": 0.0,
        "end": 0.0,
        "subject": "ReplicaSet/web",
        "text": "ReplicaSet/web: created by user, wants 2",
    }
    kinds = [o["kind"] for o in document["objects"]]
    assert kinds.count("Pod") == 2 and kinds.count("ReplicaSet") == 1
    assert document["expect"][0] == {
        "where": "expect[0]",
        "text": "pods: {}, count: 2",
        "ok": True,
        "t": 10.0,
        "found": 2,
    }
    assert document["not_simulated"][0]["kind"] == "Service"


def test_json_is_the_same_every_time(tmp_path: Path, capsys: Capture) -> None:
    plan = scenario(tmp_path, objects=[replica_set(20)])
    texts = []
    for name in ("a", "b"):
        call(capsys, plan, "--json", str(tmp_path / name))
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]


def test_the_page_is_one_file_without_requests(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("plotly")
    target = tmp_path / "o.html"
    evil = replica_set(2)
    evil["spec"]["template"]["metadata"]["annotations"] = {"x": "</script><script>alert(1)"}
    plan = scenario(
        tmp_path,
        title="<b>bold</b> & more",
        objects=[evil, SERVICE],
        expect=[{"pods": {}, "count": 3}],
    )
    assert call(capsys, plan, "--html", str(target))[0] == 1
    page = target.read_text()
    assert "<title>&lt;b&gt;bold&lt;/b&gt; &amp; more</title>" in page
    assert "<b>bold" not in page
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*", page) == [
        '<link rel="icon" href="data:,"',
        '<script type="application/json" id="figures"',
        "<script",
        '<script type="module"',
    ]
    for text in ("Pods", "Replicas", "API writes", "Work queues", "Timeline", "Decisions"):
        assert f"<h2>{text}</h2>" in page
    assert "0 of 1" in page and "Stored, not simulated: Service/web" in page


def test_html_without_the_extra_says_what_to_install(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kcm_lite.viz.report", None)
    page = tmp_path / "o.html"
    code, out, err = call(capsys, write(tmp_path / "web.yaml", pod()), "--html", str(page))
    assert (code, out) == (2, "") and not page.exists()
    assert "--html needs the viz extra" in err and 'pip install "kcm-lite[viz]"' in err


def test_long_reports_are_shortened_unless_all_is_asked_for(
    tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path / "web.yaml", replica_set(60))
    _, short, _ = call(capsys, path)
    _, full, _ = call(capsys, path, "--all")
    assert "21 lines left out; --all prints them" in short
    assert len(full.splitlines()) > len(short.splitlines())
    assert "left out" not in full
    assert shortened(["x"] * 40, False) == ["x"] * 40


def test_a_progress_line_on_a_terminal_only(tmp_path: Path, capsys: Capture) -> None:
    screen = io.StringIO()
    meter = Meter(60, screen)
    meter(15)
    meter(15)
    meter(30)
    meter.clear()
    assert screen.getvalue() == "\r00:15.0 of 01:00.0 (25 %)\r00:30.0 of 01:00.0 (50 %)\r\x1b[K"
    assert call(capsys, write(tmp_path / "web.yaml", pod()))[2] == ""


def test_version_and_help(capsys: Capture) -> None:
    for args, text in (
        (["--version"], f"kcm-lite {kcm_lite.__version__}"),
        (["--help"], "simulate"),
        (["simulate", "--help"], "--until TIME"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(args)
        assert caught.value.code == 0
        assert text in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path / "web.yaml", replica_set(60))
    command = f"{sys.executable} -m kcm_lite.cli simulate {path} --all | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("default")
    command = command.replace("--all", "--json - 2>/dev/null")
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "{\n")


def test_explain_adds_the_reasons_of_one_object(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "web.yaml", deployment(2))
    code, out, _ = call(capsys, path, "--explain", "deploy/web")
    assert code == 0
    assert re.search(r"^Deployment/web$.*^  \S+  create ReplicaSet/web-", out, re.M | re.S)
    for ref, told in (
        ("deploy/other/web", 'Deployment/web: the trace says nothing about it (did you mean "dep'),
        ("deploy/wep", '(did you mean "deployment/web"?)\n'),
        ("ns/default", "Namespace/default: the trace says nothing about it\n"),
    ):
        assert told in call(capsys, path, "--explain", ref)[1]


def test_a_long_explanation_is_shortened(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "web.yaml", deployment(30))
    whole = call(capsys, path, "--explain", "deploy/web", "--all")[1].splitlines()
    short = call(capsys, path, "--explain", "deploy/web")[1].splitlines()
    assert len(short) < len(whole) and short[-1] == whole[-1]
    at = short.index("Deployment/web")
    assert any("lines left out; --all prints them" in line for line in short[at:])


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("web", 'got "web", want kind/name or kind/namespace/name'),
        ("rs/", 'got "rs/", want kind/name'),
        ("jub/web", 'kind "jub" is not simulated (did you mean "Job"?)'),
    ],
)
def test_what_cannot_be_explained_is_refused(
    ref: str, told: str, tmp_path: Path, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        call(capsys, write(tmp_path / "web.yaml", deployment(2)), "--explain", ref)
    assert ended.value.code == 2
    assert f"argument --explain: {told}" in capsys.readouterr().err
