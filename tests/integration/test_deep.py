"""Deep rounds: many steps in a work tree of its own, one change at the gate."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from ridgeline.agent.campaign import settings
from ridgeline.agent.campaign.tape import Tape, tape_port
from ridgeline.agent.deep.hands import HandsWorker, open_bench
from ridgeline.agent.deep.languages import find_languages, plan_rewrite
from ridgeline.agent.deep.worker import ModelWorker
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.providers import budget
from ridgeline.agent.providers.agents import AgentModel
from ridgeline.agent.providers.base import Reply
from ridgeline.agent.providers.choice import Choice
from ridgeline.agent.providers.mailbox import Mailbox, MailboxAnswer, MailboxModel
from ridgeline.agent.providers.tape import FILE, ModelTape, TapedModel
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.trial import Drafted, find, find_proposal
from ridgeline.graph.values import Cost
from ridgeline.sandbox.audit.examine import find_added
from ridgeline.sandbox.isolation.stopping import Stopping, listening
from ridgeline.sandbox.store.campaign_folder import StopFile
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests import text_project
from tests.builders import make_contract, make_limits
from tests.campaigns import make_campaign
from tests.model_fakes import ScriptedModel, call
from tests.world import KERNEL, ScriptedPlanner

SHORT = {"calibration_pairs": 2, "calibration_looks": (), "final_pairs": 3}
STORY = "Packing paid once the loop was blocked; vectors were tried and left out."


def write(text):
    return (call("write_file", path=KERNEL, text=f"{text}\n"),)


def run(tool, **arguments):
    return (call(tool, **arguments),)


def deep_campaign(tmp_path, *answers, scripts=(), tape=None, **limits):
    """The scripted world with a scripted model in its deep round, which is the first."""
    settings = make_limits(**{"target_peak_fraction": None, "max_restarts": 0, "deep": "start", **SHORT, **limits})
    model = ScriptedModel(*answers)
    made = make_campaign(tmp_path, planner=ScriptedPlanner(None, *scripts), limits=settings, tape=tape)
    worker = ModelWorker(ModelPlanner(model, limits=settings), made.ports, tmp_path)
    made.ports = replace(made.ports, worker=tape_port("worker", worker, tape) if tape else worker)
    return made, model


def test_a_plan_whose_middle_is_broken_reaches_a_gain_that_is_kept_as_one_change(tmp_path):
    made, model = deep_campaign(
        tmp_path,
        write("speed 100 no build"),
        run("build"),
        write("speed 150 wrong"),
        run("test"),
        write("speed 150"),
        run("test"),
        run("time"),
        run("profile"),
        run("isa"),
        STORY,
    )
    made.drive()
    (closed,) = made.history().rounds
    assert closed.accepted
    assert closed.judged.verdict.gain == pytest.approx(0.5, abs=0.02)
    deep = find_proposal(closed.judged).deep
    assert [(step.tool, step.outcome.split(":")[0]) for step in deep.steps] == [
        ("write_file", "kernel.c"),
        ("build", "does not build"),
        ("write_file", "kernel.c"),
        ("test", "not right (incorrect)"),
        ("write_file", "kernel.c"),
        ("test", "right"),
        ("time", "HINT"),
        ("profile", "1 counters by cachegrind"),
        ("isa", "1 numbers by compiler_report"),
    ]
    assert [step.device_s > 0 for step in deep.steps[-2:]] == [True, False], "the compiler needs no device"
    assert (deep.origin, deep.ended) == ("start", "")
    assert deep.tokens == 1000
    assert closed.cost.tokens >= 1000
    assert find(closed.judged, Drafted).explanation == STORY
    assert made.workspace.sources(closed.commit)[0].text == "speed 150\n"
    assert len(made.workspace.branch_log()) == 1, "one commit for all steps"


def test_what_may_not_be_edited_is_refused_there_and_then_and_the_tree_stays(tmp_path):
    made, model = deep_campaign(
        tmp_path,
        (call("write_file", path="bench.c", text="always fast\n"),),
        run("edit_file", path=KERNEL, old="100", new="140"),
        run("edit_file", path=KERNEL, old="e", new="x"),
        run("delete_file", path="ridgeline.yaml"),
        run("shell", command="make"),
        run("time", pairs=9),
        STORY,
    )
    made.drive()
    (closed,) = made.history().rounds
    assert closed.accepted
    steps = find_proposal(closed.judged).deep.steps
    assert [step.outcome for step in steps] == [
        "refused: 'bench.c': is not editable; the contract allows kernel.c",
        "kernel.c: 1 place changed",
        "not done: kernel.c: `old` stands there 2 times, and must once",
        "not done: ridgeline.yaml: no such editable file",
    ]
    answers = [message.text for message in model.asks[-1].messages if message.role == "tool"]
    assert "no tool is called 'shell'" in answers[4]
    assert "takes no 'pairs'" in answers[5]
    assert made.workspace.sources(closed.commit)[0].text == "speed 140\n"


def test_where_the_budget_ends_what_stands_is_handed_in_if_it_builds(tmp_path):
    made, _ = deep_campaign(tmp_path, write("speed 130"), run("test"), run("time"), deep_steps=2)
    made.drive()
    (closed,) = made.history().rounds
    assert closed.accepted
    assert find_proposal(closed.judged).deep.ended == "budget of the deep round ended: 2 of 2 steps"


def test_where_the_budget_ends_on_a_tree_that_does_not_build_the_round_is_rolled_back(tmp_path):
    made, model = deep_campaign(
        tmp_path, *[write(f"speed {speed} no build") for speed in range(130, 145)], deep_tokens=1000
    )
    made.drive()
    (closed,) = made.history().rounds
    assert closed.judged.verdict.reason == "no_edit"
    why = "budget of the deep round ended: 1000 of 1000 tokens"
    assert closed.judged.trial.detail == f"{why}; what stands does not build"
    assert find_proposal(closed.judged).deep.ended == why
    assert closed.cost.tokens == 1000, "what was asked is paid for all the same"
    assert model.left == 5


def test_the_tools_say_what_the_round_would_refuse_as_it_then_says_it(tmp_path):
    made, model = deep_campaign(
        tmp_path,
        write("speed 150\nlong f(void) { return syscall(228, 1); }"),
        run("build"),
        run("test"),
        run("time"),
        STORY,
    )
    apply, sources = made.workspace.apply, made.workspace.sources

    def read_and_apply(*, parent, edits, **fields):
        commit = apply(parent=parent, edits=edits, **fields)
        before = {edit.path: edit.text for edit in sources(parent)}
        return commit.model_copy(update={"audit": find_added(before, {edit.path: edit.text for edit in edits})})

    made.workspace.apply = read_and_apply
    made.drive()
    (closed,) = made.history().rounds
    detail = closed.judged.trial.detail
    assert (closed.judged.verdict.reason, detail[:24]) == ("unsettled", "kernel.c:2 raw-syscall: ")
    answers = [message.text for message in model.asks[-1].messages if message.role == "tool"]
    assert [f"would be refused: {detail}\n" in text for text in answers] == [False, True, True, True]


def test_a_deep_rounds_page_and_its_end_know_what_is_left_of_the_campaign(tmp_path):
    made, model = deep_campaign(
        tmp_path, *[write(f"speed {speed}") for speed in range(130, 145)], max_tokens=9192, max_minutes=7.0
    )
    made.drive()
    (closed,) = made.history().rounds
    page = model.asks[0].messages[-1].text
    assert re.search(r"left: [0-6]\.\d minutes, 1000 tokens,", page), "9192 less an answer of 8192"
    assert "tokens left: 9192 of 9192; where a question's page and 8192 tokens of an answer do not fit" in page
    deep = find_proposal(closed.judged).deep
    assert deep.ended == "budget of the deep round ended: 1000 of 1000 tokens"


def test_a_request_to_stop_ends_a_deep_round_before_its_next_step(tmp_path):
    requests = []

    def ask_to_stop(ask):
        requests.append(ask.purpose)
        return Reply(calls=write("speed 150"), model="scripted")

    made, model = deep_campaign(tmp_path, run("build"), STORY, STORY)
    model._answers.insert(1, ask_to_stop)
    model.ask = lambda ask: model._answers.pop(0)(ask) if callable(model._answers[0]) else ScriptedModel.ask(model, ask)
    with listening(Stopping(requests=lambda: len(requests))):
        made.drive()
    (closed,) = made.history().rounds
    assert closed.judged.verdict.reason == "stopped"
    assert [step.tool for step in find_proposal(closed.judged).deep.steps] == ["build"]
    assert "a person asked to stop" in closed.judged.trial.detail
    assert model.left == 2, "and asks the model nothing more"


class Killed(BaseException):
    """A kill: no code of ours runs after it."""


class Mortal:
    """A port or model that dies once, before or after the call that uses the fuse up."""

    def __init__(self, inner, fuse):
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name):
        member = getattr(self._inner, name)
        if not callable(member) or name == "count":
            return member

        def mortal(*args, **kwargs):
            self._fuse[0] -= 1
            if self._fuse[0] == 0 and self._fuse[1] == "before":
                raise Killed
            answer = member(*args, **kwargs)
            if self._fuse[0] == 0:
                raise Killed
            return answer

        return mortal


STEPS = (write("speed 100 no build"), run("build"), write("speed 150"), run("time"), run("go_back", step=3), STORY)


def taped(folder, fuse):
    """A deep campaign whose model is on its tape, as it is outside of tests."""
    folder.mkdir(exist_ok=True)
    model = ScriptedModel(*STEPS)
    made, _ = deep_campaign(folder, tape=Tape(folder / "tape.jsonl"))
    living = {name: Mortal(getattr(made.ports, name), fuse) for name in ("builder", "timer", "workspace", "clock")}
    planner = ModelPlanner(TapedModel(Mortal(model, fuse), ModelTape(folder / FILE)), limits=made.request.limits)
    worker = ModelWorker(planner, replace(made.ports, **living), folder)
    tape = Tape(folder / "tape.jsonl")
    ports = {name: tape_port(name, getattr(made.ports, name), tape) for name in ("builder", "timer", "clock")}
    made.ports = replace(made.ports, worker=tape_port("worker", worker, tape), **ports)
    return made, model


def test_a_deep_round_that_was_killed_goes_on_at_its_step_and_a_replay_asks_nobody(tmp_path):
    whole, model = taped(tmp_path / "whole", fuse=[0, ""])
    whole.drive()
    assert whole.verdicts() == ["faster"]
    ledger = (tmp_path / "whole" / "ledger.jsonl").read_bytes()
    for number, when in ((6, "after"), (11, "before")):
        folder = tmp_path / str(number)
        killed, _ = taped(folder, fuse=[number, when])
        with pytest.raises(Killed):
            killed.drive()
        before = len(ModelTape(folder / FILE).asks)
        again, model = taped(folder, fuse=[0, ""])
        model._answers = list(STEPS[before:])
        again.drive()
        assert (folder / "ledger.jsonl").read_bytes() == ledger
        assert model.left == 0, "what was answered is not asked again"
    tape = Tape(tmp_path / "whole" / "tape.jsonl", mode="replay")
    (tmp_path / "replay").mkdir()
    replayed, model = deep_campaign(tmp_path / "replay", tape=tape)
    replayed.drive()
    assert (tmp_path / "replay" / "ledger.jsonl").read_bytes() == ledger


class Asking(ScriptedPlanner):
    """A person asks for a deep round while round 2 is open."""

    def __init__(self, cli, folder, *scripts):
        super().__init__(*scripts)
        self._cli, self._folder = cli, folder

    def draft(self, briefing, proposal):
        if briefing.round == 2:
            answer = self._cli("deep", "ask", self._folder, "--plan", "pack\nthe panels")
            assert (answer.code, "deep round 1 is asked for" in answer.out) == (0, True), answer
        return super().draft(briefing, proposal)


def test_a_person_asks_for_a_deep_round_while_another_one_is_open(tmp_path, cli):
    limits = {"deep": "asked", "max_rounds": 4}
    made, _ = deep_campaign(tmp_path, write("speed 150"), STORY, **limits)
    planner = Asking(cli, tmp_path, "speed 120", None, "speed 170")
    made.ports = replace(made.ports, planner=planner, signals=StopFile(tmp_path))
    made.request = made.request.model_copy(update={"steerable": True})
    made.drive()
    rounds = made.history().rounds
    origins = [deep and (deep.origin, deep.plan) for deep in (find_proposal(closed.judged).deep for closed in rounds)]
    assert origins == [None, ("person", "pack the panels"), None]
    assert made.verdicts() == ["faster"] * 3
    assert made.history().steered[-1].wish.deep == ("pack the panels",)
    page = made.files.read("rounds/round-3/summary.md")
    assert "### Deep round\n\npack the panels (a person asked for it)\n\n1 steps" in page


def test_a_deep_round_without_a_model_is_refused_in_a_line(tmp_path):
    with pytest.raises(UserError, match="--deep: a deep round needs a model"):
        settings.resolve([settings.from_flags({"deep": "start"})])
    made = make_campaign(tmp_path, limits=make_limits(target_peak_fraction=None, deep="start", **SHORT))
    made.drive()
    (closed,) = made.history().rounds
    assert closed.judged.trial.detail == "nobody can work in a tree here: a deep round needs a model"


def test_after_stagnation_the_planner_asks_for_a_deep_round_and_its_plan_is_that_rounds_own(tmp_path):
    around = json.dumps(
        {
            "directions": [{"category": name, "direction": f"try {name}"} for name in ("layout", "tile", "backend")],
            "deep": "block the loops, then pack the panels, then a micro-kernel",
        }
    )
    limits = make_limits(target_peak_fraction=None, max_restarts=0, deep="stagnation", max_rounds=3, **SHORT)
    reviewer = ScriptedModel(around)
    planner = ScriptedPlanner("speed 80", "speed 81")
    planner.review = ModelPlanner(reviewer, limits=limits).review
    made = make_campaign(tmp_path, planner=planner, limits=limits)
    worker = ModelPlanner(ScriptedModel(write("speed 150"), STORY), limits=limits)
    made.ports = replace(made.ports, worker=ModelWorker(worker, made.ports, tmp_path))
    made.drive()
    assert made.verdicts() == ["not_better", "not_better", "faster"]
    deep = find_proposal(made.history().rounds[2].judged).deep
    assert (deep.origin, deep.plan) == ("planner", "block the loops, then pack the panels, then a micro-kernel")
    assert "write the plan of\nthese steps into `deep`" in reviewer.asks[0].messages[-1].text
    quiet = make_limits(target_peak_fraction=None)
    assert ModelPlanner(reviewer, limits=quiet)._describe_deep() == "", "unasked, a review says nothing of it"


def test_the_languages_to_write_a_kernel_anew_in_are_those_that_its_own_python_imports(tmp_path):
    for module in ("helion", "cutlass/cute", "broken"):
        (tmp_path / module).mkdir(parents=True)
        (tmp_path / module / "__init__.py").touch()
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise RuntimeError('no driver')")
    command = {"quick_command": (sys.executable, "bench.py", "--csv", "{csv}", "--shapes", "{shapes}")}
    contract = make_contract(**command)
    assert [language.name for language in find_languages(contract, tmp_path)][-2:] == ["cute", "helion"]
    assert "gluon" not in {language.name for language in find_languages(contract, tmp_path)}
    assert plan_rewrite("helion", contract, tmp_path).startswith("Write the kernel anew in Helion (module helion")
    with pytest.raises(
        UserError, match="--deep-from: the contract's Python cannot import tilelang; it has: .*cute, helion"
    ):
        plan_rewrite("tilelang", contract, tmp_path)
    with pytest.raises(UserError, match="--deep-from: 'gluten' is unknown; known are triton, gluon"):
        plan_rewrite("gluten", contract, tmp_path)


# By hand: a mailbox, and a coding agent.


def by_hand(tmp_path, model, **limits):
    """The scripted world whose deep round is worked at by whoever edits files."""
    made, _ = deep_campaign(tmp_path, tape=Tape(tmp_path / "tape.jsonl"), **limits)
    worker = HandsWorker(ModelPlanner(model, limits=made.request.limits), made.ports, tmp_path)
    made.ports = replace(made.ports, worker=tape_port("worker", worker, Tape(tmp_path / "tape.jsonl")))
    return made


def test_a_mailbox_edits_files_runs_them_by_commands_and_answers_with_the_story(tmp_path):
    made = by_hand(tmp_path, MailboxModel(tmp_path))
    with pytest.raises(Waiting):
        made.drive()
    box, tree = Mailbox(tmp_path), tmp_path / "deep" / "round-2" / "tree"
    page = box.path(1, "request.md").read_text()
    assert "ridgeline deep time CAMPAIGN" in page
    assert "deep/round-2/tree" in page

    def at_desk(*words):
        """Each command is a process of its own: it knows what lies on the disk."""
        reader = AllTexts(made.workspace)
        return open_bench(made.ports, reader, tmp_path).run(list(words))

    (tree / KERNEL).write_text("speed 150 no build\n")
    (tree / "bench.c").write_text("always fast\n")
    assert at_desk("build").startswith("not editable, and put back: bench.c\nstep 1, build: does not build\nkernel.c:1")
    assert (tree / "bench.c").read_text() == "the benchmark\n"
    (tree / KERNEL).write_text("speed 150\n")
    assert "HINT: 1." in at_desk("time")
    assert "the tree is that of step 0" in at_desk("back", "0")
    assert (tree / KERNEL).read_text() == "speed 100\n"
    assert "no tool is called 'rm'" in at_desk("rm")
    (tree / KERNEL).write_text("speed 160\n")
    request = box.open_request()
    box.store(request, MailboxAnswer(digest=request.digest, text=STORY, author="Ada", tokens=5, dollars=None))
    made.drive()
    (closed,) = made.history().rounds
    assert closed.accepted
    assert made.workspace.sources(closed.commit)[0].text == "speed 160\n"
    deep = find_proposal(closed.judged).deep
    assert [step.tool for step in deep.steps] == ["build", "time", "go_back"]
    assert find(closed.judged, Drafted).explanation == STORY


class AllTexts:
    """Every file of the scripted world, also what may not be edited."""

    def __init__(self, workspace):
        self._workspace = workspace

    def paths(self, commit):
        return tuple(self._workspace._files(commit))

    def text(self, commit, path):
        return self._workspace._files(commit).get(path)


AGENT = """#!{python} -IS
import json, pathlib, subprocess, sys
asked = sys.stdin.read()
kernel = pathlib.Path("kernel.c")
kernel.write_text("speed 140\\n")
ran = subprocess.run(["ridgeline", "deep", "test"], capture_output=True, text=True)
pathlib.Path({place!r}).write_text(json.dumps([asked, sys.argv, ran.stdout, ran.stderr, ran.returncode]))
said = dict(type="result", is_error=False, result="Blocked it.", usage=dict(output_tokens=70))
print(json.dumps(said))
"""


def test_a_coding_agent_works_in_the_tree_with_the_commands_alone(tmp_path, monkeypatch):
    stand_in, heard = tmp_path / "bin" / "claude", tmp_path / "heard.json"
    stand_in.parent.mkdir()
    stand_in.write_text(AGENT.format(python=sys.executable, place=str(heard)))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:/usr/bin:/bin")
    made = by_hand(tmp_path, AgentModel(Choice(name="agent:claude")))
    made.drive()
    asked, argv, out, err, code = json.loads(heard.read_text())
    assert (code, err) == (0, "")
    assert out.startswith("step 1, test: right\nleft: ")
    assert "Bash(ridgeline deep:*)" in argv[argv.index("--allowedTools") + 1]
    assert "You have no tools" not in asked
    (closed,) = made.history().rounds
    assert closed.accepted
    assert find(closed.judged, Drafted).explanation == "Blocked it."
    deep = find_proposal(closed.judged).deep
    assert ([step.tool for step in deep.steps], deep.tokens) == (["test"], 70)
    assert not (tmp_path / "deep" / "round-2" / "tree" / ".ridgeline").exists()


# Through the command line: real git, processes and compiler; only the model is a script.

TWO_PASSES = """double total(const double *x, int n, long *reads) {
    double sum = 0, again = 0;
    for (int i = 0; i < n; i++) { sum += x[i]; ++*reads; }
    for (int i = 0; i < n; i++) { again += x[i]; ++*reads; }
    return (sum + again) / 2;
}
"""
ONE_PASS = """double total(const double *x, int n, long *reads) {
    double sum = 0;
    for (int i = 0; i < n; i++) { sum += x[i]; ++*reads; }
    return sum;
}
"""
COUNTED = '''#!/usr/bin/env python3
"""Test and benchmark of kernel.c as it was compiled: its time is the number of its reads."""
import ctypes, pathlib, random, sys

def call(folder):
    total = ctypes.CDLL(str(pathlib.Path(folder, "libkernel.so").resolve())).total
    total.restype, reads = ctypes.c_double, ctypes.c_long(0)
    return total((ctypes.c_double * 100)(*range(100)), 100, ctypes.byref(reads)), reads.value

if sys.argv[1] == "test":
    right = call(".")[0] == 4950
    print("PASS" if right else "MISMATCH: the sum")
    sys.exit(not right)
if sys.argv[1] == "bench":
    time = call(".")[1] / 1000
    pathlib.Path(sys.argv[2]).write_text(f"label,Check,GFLOPS,Time (ms)\\nall,PASS,{1 / time},{time}\\n")
if sys.argv[1] == "pair":
    a, b, csv, shapes, blocks, seed = sys.argv[2:]
    draw, out, times = random.Random(int(seed)), ["label,block,slot,side,time_us"], {"a": call(a)[1], "b": call(b)[1]}
    for block in range(int(blocks)):
        out += [f"all,{block},{slot},{side},{times[side] * draw.gauss(1, 0.002)}" for slot, side in enumerate("abba")]
    pathlib.Path(csv).write_text("\\n".join(out) + "\\n")
'''
BUILD = {"required": True, "command": "gcc -O1 -shared -fPIC -o libkernel.so kernel.c"}


class Server(ScriptedModel):
    """A model that says what an answer may cost, as a provider's does."""

    def most(self, ask):
        return Cost(tokens=1000)


def test_a_compiled_kernel_is_written_anew_in_steps_through_the_command_line(
    cli, make_repository, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # what other tests time is not waited for
    monkeypatch.setenv("RIDGELINE_QUIET_S", "0")
    project = text_project.files()
    contract = yaml.safe_load(project["ridgeline.yaml"])
    contract.update(kernel_source=["kernel.c"], rebuild=BUILD, target_op="sum_f64", dtype="fp64")
    written = {
        "ridgeline.yaml": yaml.safe_dump(contract),
        "kernel.c": TWO_PASSES,
        "harness.py": COUNTED,
        ".gitignore": "*.so\n",
    }
    root = make_repository(written)
    half = ONE_PASS.replace("return sum;", "return half(sum)")
    steps = (("write_file", half), ("build", None), ("write_file", ONE_PASS), ("test", None))
    answers = [(call(tool, **({"path": "kernel.c", "text": text} if text else {})),) for tool, text in steps]
    model = Server(*answers, STORY, '{"attribution": "one pass", "root_cause": "", "next_direction": ""}')
    monkeypatch.setattr(budget, "client", lambda choice, campaign, answered: model)
    monkeypatch.setattr(budget, "forecast", lambda choice, limits: ())
    limits = ("calibration_pairs=0", "blocks=2", "final_pairs=3", "max_rounds=1")
    words = ("--preset", "campaign", *(word for limit in limits for word in ("--set", limit)))
    ended = cli("run", root, "--model", "openai/x", "--deep", "--dir", tmp_path / "campaign", *words, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["accepted"] == 1, ended.err
    closed = fold_ledger(JsonlLedger(tmp_path / "campaign" / "ledger.jsonl").lines()).rounds[0]
    outcomes = [step.outcome.split(":")[0] for step in find_proposal(closed.judged).deep.steps]
    assert outcomes == ["kernel.c", "does not build", "kernel.c", "right"]
    assert "expected" in model.asks[2].messages[-1].text, "the compiler's own words"
    log = subprocess.run(["git", "log", "--format=%B", closed.commit], cwd=root, capture_output=True, text=True).stdout
    assert STORY in " ".join(log.split())
    page = (tmp_path / "campaign" / "rounds" / "round-2" / "summary.md").read_text()
    assert "| 2 | build | does not build | 0." in page
