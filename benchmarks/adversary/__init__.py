"""A standing adversary: nasty bilevel problems, what boundcheck says of them, and the truth in fifty digits and more.

`make adversary PROBLEMS=100000`, or ``PYTHONPATH=benchmarks python -m adversary --help``. The order of reading:

* `exact.py`: numbers of 70 digits, derivatives by differences, fixed points and methods. It uses mpmath alone.
* `case.py`: one problem, in plain torch and in mpmath, side by side.
* `smooth.py`, `kinks.py`, `cancelling.py`, `blind.py`, `modules.py`: the ingredients; `generate.py` mixes them by
  number, and `spoil.py` says something wrong of the mixture.
* `witness.py`: values that a constant certainly reaches; `judge.py`: which statements are false; `ask.py`: the calls.
* `tally.py`: counts; `log.py`: a long run in pieces; `run.py`: many problems on all cores; `breakages.py`: ways to
  break the library, each of which must be noticed.
"""
