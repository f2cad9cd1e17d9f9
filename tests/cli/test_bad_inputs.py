"""Bad input through the command line: exit code 2 (3 where no theorem applies), one line on stderr, no traceback.

Exit code 1 means *violated*, so nothing here may end with it. Ten of them also run as real processes.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bad_problems import TEXT
from command import Command

ITD = (
    "bound itd --set q=.9 --set D=1 --set L_E=2 --set L_Phi=3 --set nu_1=.1 --set nu_2=.2 --set eta_1=.3 --set eta_2=.4"
)
FP = ITD.replace("bound itd", "bound aid-fp")
RULES = "functions may not use numpy, .item() or `if` on values of tensors; see Rules in docs/howto/own_problem.md"
SPARSE = "use X = bc.SparseMatrix.from_scipy(X, dtype=…)"

BOUNDS = {
    "bound itt": "unknown bound 'itt'; did you mean itd",
    "bound nosuch": "unknown bound 'nosuch'; known: ablin",
    "bound": "Missing argument",
    "bound itd --colour": "No such option",
    "bound itd --set q=-0.1": "q = -0.1 < 0",
    "bound itd --set q=nan": "q = nan is not finite",
    "bound itd --set q=inf": "q = inf is not finite",
    "bound itd --set q=1e400": "q = 1e400 is not finite",
    "bound itd --set \"q=__import__('os')\"": "is not a number",
    "bound itd --set q=1/2": "q = '1/2' is not a number",
    "bound itd --set q=0_9": "q = '0_9' is not a number",
    "bound itd --set q=٠.٩": "is not a number",
    "bound itd --set q=": "q = '' is not a number",
    "bound itd --set q": "'q' has no '='",
    "bound itd --set q=.5 --set q=.6": "gives q twice",
    "bound itd --set q=.5 --set 'q =.6'": "gives q twice",
    "bound itd --set foo=1": "unknown symbol 'foo'",
    "bound itd --set c_1=1": "unknown symbol 'c_1'",
    "bound itd --set t=5": "use --t 5",
    "bound itd --set q=0.9": "itd needs nu_1",
    f"{ITD} --t -1": "t = -1",
    f"{ITD} --t 1.5": "t = '1.5' is not a count",
    f"{ITD} --t 5:1": "negative or empty",
    f"{ITD} --t 0:99999999999": "is not a count",
    f"{FP} --t 1,2,3 --k 1,2": "k has 2 values and t has 3",
    f"{ITD} --eps 0": "eps = 0 ≤ 0",
    f"{ITD} --eps -1e-3": "eps = -0.001 ≤ 0",
    f"{ITD} --eps small": "eps = 'small' is not a number",
    f"{ITD} --side above": "side = 'above' is not a side",
    f"{ITD} --side high-probability": "needs a delta",
    f"{FP} --rate rho=fast": "unknown rate for rho 'fast'",
    f"{FP} --rate q=fast": "unknown rate symbol 'q'",
    f"{ITD} --rate rho=heavy-ball": "itd has no rho",
    f"{ITD} --k 5": "itd does not depend on k",
    f"{ITD.replace('bound itd', 'bound aid-contraction')}": "needs sigma",
    "bound itd --latex --python": "one at a time",
    "bound itd --latex --set q=5": "print the statement alone",
    "bond itd": "No such command",
    "list theorems": "unknown listing 'theorems'",
    "--vrsion": "No such option",
}
OPTIONS = {
    "check": "Missing argument",
    "check scaler": "unknown problem 'scaler'; did you mean scalar",
    "check scalar --know t=3": "unknown constant 't'",
    "check scalar --know nu_2=-1": "--know nu_2 must not be negative (got -1)",
    "check scalar extra": "unexpected extra argument",
    "check scalar --method itf": "unknown method 'itf'",
    "check scalar --method ''": "unknown method ''",
    "check scalar --method exact": "exact is what errors are measured against",
    "check scalar --method itd:3": "itd takes no k; write itd or itd-truncated:K",
    "check scalar --method itd-truncated": "write itd-truncated:10",
    "check scalar --method aid-cg:x": "k = 'x' in 'aid-cg:x' is not a number of steps",
    "check scalar --bound itt": "unknown bound 'itt'",
    "check scalar --bound aid-cg --method itd": "is about aid-cg, and the methods are itd; add aid-cg",
    "check scalar --bound itd-derivative": "not the hypergradient's error; leave it out",
    "check scalar --bound enclosure": "enclosure",
    "check scalar --t 0": "--t must be at least 1 (got 0)",
    "check scalar --t=-5": "--t must be at least 1 (got -5)",
    "check scalar --t many": "--t",
    "check scalar --t 1e3": "--t",
    "check scalar --t": "--t",
    "check scalar --t 100000000000": "--memory",
    "check scalar --samples 0": "--samples must be at least 1 (got 0)",
    "check scalar --samples -1": "--samples must be at least 1 (got -1)",
    "check scalar --t 5 --trace-t 9": "--trace-t 9 is outside 1 … 5",
    "check scalar --trace-t 0": "--trace-t 0 is outside 1 … 200",
    "check scalar --dtype float16": "unknown dtype 'float16'",
    "check scalar --dtype int": "unknown dtype 'int'",
    "check scalar --seed x": "--seed",
    "check scalar --budget 0": "--budget must be at least 1 product (got 0)",
    "check scalar --delta 0": "--delta must be between 0 and 1 (got 0.0)",
    "check scalar --delta 2": "--delta must be between 0 and 1 (got 2.0)",
    "check scalar --delta nan": "--delta must be between 0 and 1 (got nan)",
    "check scalar --memory lots": "--memory must be a size such as 4GB, 512MB or a number of bytes (got 'lots')",
    "check scalar --memory 0": "--memory must be a size",
    "check scalar --memory -1GB": "--memory must be a size",
    "check scalar --memory 4XB": "--memory must be a size",
    "check scalar --t 1000 --memory 1kB": "--memory must be at least",
    "check scalar --know q": "--know q has no '='; write NAME=NUMBER",
    "check scalar --know =3": "has no '='",
    "check scalar --know q=a": "--know q must be a finite number (got 'a')",
    "check scalar --know q=nan": "--know q must be a finite number (got 'nan')",
    "check scalar --know side=1": "unknown constant 'side'",
    "check scalar --know q=.5 --know q=.6": "--know gives q twice",
    "check scalar --know nu2=1": "unknown constant 'nu2'; did you mean nu_2",
    "check scalar --set-problem q": "--set-problem q has no '='",
    "check scalar --set-problem q=a": "option q of scalar must be a number (got 'a')",
    "check scalar --set-problem q=1.5": "q = 1.5 is not a contraction constant",
    "check scalar --set-problem q=.5 --set-problem q=.6": "--set-problem gives q twice",
    "check scalar --set-problem p=1": "scalar has no option 'p'; it takes kind (text), q (number)",
    "check scalar --set-problem seed=1": "write --seed 1",
    "check scalar --set-problem dtype=float32": "write --dtype float32",
    "check bad.py:options --set-problem flag=maybe": "flag of bad.py:options must be true or false (got 'maybe')",
    "check bad.py:options --set-problem size=2.5": "option size of bad.py:options must be a whole number (got '2.5')",
    "check bad.py:options --set-problem count=x": "must be a whole number or none (got 'x')",
    "check bad.py:options --set-problem colour=red": "it takes size (whole number), scale (number), flag",
    "check bad.py:problem --set-problem size=2": "bad.py:problem is a finished problem and takes no options",
    "check scalar --out taken": "cannot be made: taken is a file; give another directory",
    "check scalar --out taken/below": "cannot be made",
    "plan scalar": "no accuracy was given; give --rtol 0.01",
    "plan scalar --eps 1 --rtol 1": "--eps and --rtol were given together",
    "plan scalar --eps 1e-16": "eps = 1e-16 is below the rounding floor 4.2e-12",
    "plan scalar --eps 0": "--eps must be a positive number, such as 1e-3 (got 0.0)",
    "plan scalar --eps -1": "--eps must be a positive number",
    "plan scalar --eps nan": "--eps must be a positive number",
    "plan scalar --eps inf": "--eps must be a positive number",
    "plan scalar --eps tiny": "--eps",
    "plan scalar --eps 1 --memory lots": "--memory must be a size such as 4GB",
    "plan scalar --eps 1 --method itf": "unknown method 'itf'",
    "constants lrr": "unknown problem 'lrr'; did you mean lr",
    "constants br --dtype half": "unknown dtype 'half'",
    "constants scalar --ball round": "unknown ball 'round'",
    "constants scalar --budget 0": "--budget must be at least 1 product (got 0)",
    "constants scalar --explain nu": "unknown constant 'nu'; did you mean",
    "hypergradient scalar": "no tolerance was given; add --rtol 0.1",
    "hypergradient scalar --rtol 0": "rtol and atol are both 0",
    "hypergradient scalar --rtol -1": "rtol",
    "hypergradient scalar --rtol 0.1 --out g.txt": "--out g.txt is not a .npy file",
    "worst nosuch": "unknown bound or claim 'nosuch'; known: ablin",
    "worst itd --q 1": "--q must be between 0 and 1 (got 1.0)",
    "worst itd --q nan": "--q must be between 0 and 1 (got nan)",
    "worst itd --t -1": "--t must be at least 0 (got -1)",
    "worst itd --t 100000": "--t must be at most",
    "worst itd --k 3": "itd does not depend on k",
    "worst itd --dim 0": "--dim must be from 1 to",
    "worst itd --only foo": "foo",
    "worst itd --seed -1": "--seed must be a whole number, at least 0 (got -1)",
    "page --method itd": "--method itd needs a PROBLEM",
    "page scalar --report x": "were given together",
    "page scalar --t 0": "must be",
    "page --report nowhere": "nowhere",
    "page scalar --out no/folder/page.html": "--out no/folder/page.html",
    "page scalar --memory x": "--memory must be a size",
    "paper fig9": "unknown",
    "paper fig1 --jobs 0": "--jobs must be at least 1 (got 0)",
    "audit scalar": "Missing argument",
    "audit scalar absent.npy": "cannot read absent.npy: No such file",
    "audit scalar bad.py": "bad.py is neither .npy nor .pt",
    "audit scalar short.npy": "g has shape (2,)",
    "audit scalar junk.npy": "cannot read junk.npy",
}
FILES = {
    "check bad.py": "names a file but nothing in it; write bad.py:name",
    "check absent.py:problem": "absent.py does not exist or is not a file; give a Python file, as in mine.py:problem",
    "check .:problem": "unknown problem '.:problem'",
    "check bad.py:": "unknown name in bad.py ''",
    "check bad.py:problm": "unknown name in bad.py 'problm'; did you mean problem",
    "check bad.py:number": "number in bad.py is a int; it must be a Problem or a function returning one",
    "check bad.py:nothing": "bad.py:nothing returned a NoneType; return a Problem",
    "check bad.py:outer": "bad.py:outer raised TypeError",
    "check bad.py:divides": "bad.py:divides, line 33 raised ZeroDivisionError: division by zero; fix the file",
    "check broken.py:problem": "running broken.py raised SyntaxError",
    "check leaves.py:problem": "running leaves.py, line 2 raised SystemExit",
    "check bad.py:problem --dtype float32": "make problem a function that takes dtype= to use --dtype",
    "check bad.py:options --device cpu": "bad.py:options takes no device; let options take device= to use --device",
    "check bad.py:undefined": "inner_loss raised NameError: name 'missing' is not defined (bad.py:37)",
    "check bad.py:shapes": "is invalid for input of size 3 (bad.py:41)",
    "check bad.py:item": "inner_loss returned a float; return a 0-d tensor, without .item()",
    "check bad.py:array": RULES,
    "check bad.py:branch": RULES,
    "check bad.py:random": "random",
    "check bad.py:detached": "inner_loss does not depend on params, says autograd; does it use detach()",
    "check bad.py:without_lam": "neither inner_loss nor outer_loss depends on hparams, so the hypergradient is 0",
    "check bad.py:vector": "inner_loss returned a tensor of shape (3,); return one number",
    "check bad.py:nan": "inner_loss = nan at params and hparams; check the data for NaN and infinity",
    "check bad.py:upper_nan": "outer_loss = inf at params and hparams",
    "check bad.py:half": "params has dtype torch.float16; give float32 or float64",
    "check bad.py:mixed": "params are torch.float32 on cpu and hparams torch.float64",
    "check bad.py:whole": "params has dtype torch.int64; give float32 or float64",
    "check bad.py:empty": "params holds no tensor",
    "check bad.py:infinite": "params has entries that are not finite",
    "check bad.py:concave": "give step_size=…",
    "check bad.py:negative_step": "step_size = -1.0 is not a step; give a positive number",
    "check bad.py:csr": SPARSE,
    "check bad.py:sparse_mm": SPARSE,
    "check bad.py:singular": "singular",
    "audit bad.py:make short.npy": "g has shape (2,)",
    "plan bad.py:item --eps 1": "inner_loss returned a float",
    "constants bad.py:branch": RULES,
    "hypergradient bad.py:nan --rtol 0.1": "inner_loss = nan",
    "page bad.py:undefined": "(bad.py:37)",
}
DEVICES = {
    f"{command} --device {device}": f"device = '{device}' cannot be used: "
    for command in ("check scalar", "constants lr", "plan br --eps 1", "page krr", "paper fig1")
    for device in ("nowhere", "cuda:99", "meta")
}
SILENT = {
    "bound itd --set q=1.03": "q = 1.03 ≥ 1",
    "bound itd --set q=1": "q = 1 ≥ 1",
    "check bad.py:turned --method aid-cg": "not symmetric",
}
CASES = [(*case, 2) for group in (BOUNDS, OPTIONS, FILES, DEVICES) for case in group.items()]
CASES += [(*case, 3) for case in SILENT.items()]
AS_PROCESSES = (
    "bound", "bond itd", "--vrsion", "check", "check scalar --t many", "plan scalar", "check scalar --memory lots",
    "check scalar --know q", "bound itt", "check bad.py:undefined",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's files."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "bad.py").write_text(TEXT, encoding="utf-8")
    (folder / "broken.py").write_text("def problem(:\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "taken").write_text("mine")
    (folder / "junk.npy").write_text("no array")
    np.save(folder / "short.npy", np.ones(2))
    return folder


def files_in(place: Path) -> list[Path]:
    """What is there, without what Python keeps of the files that it imports."""
    return sorted(path for path in place.iterdir() if path.name != "__pycache__")


def is_refused(code: int, stdout: str, stderr: str, message: str, expected: int) -> bool:
    """One line with this message, and nothing else."""
    assert message in stderr
    assert stderr.startswith("boundcheck: ")
    assert stderr.count("\n") == 1
    assert stdout == ""
    return code == expected


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize(("words", "message", "code"), CASES, ids=[words for words, _, _ in CASES])
def test_one_line_and_exit_code_2(
    boundcheck: Command, place: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str, code: int
) -> None:
    monkeypatch.chdir(place)
    before = files_in(place)
    done = boundcheck(*shlex.split(words))
    assert is_refused(done.returncode, done.stdout, done.stderr, message, code)
    assert files_in(place) == before


def test_there_are_many() -> None:
    assert len(CASES) >= 150
    assert len({words for words, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("words", AS_PROCESSES)
def test_as_a_process(place: Path, words: str) -> None:
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root}
    command = [sys.executable, "-m", "boundcheck", *shlex.split(words)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=place, env=env)
    message = {**BOUNDS, **OPTIONS, **FILES}[words]
    assert is_refused(done.returncode, done.stdout, done.stderr, message, 2)
