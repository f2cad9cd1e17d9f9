"""What a release says of itself in several places is the same in all of them."""

from __future__ import annotations

import re
from pathlib import Path

import boundcheck
from boundcheck.theory.citation import GRAZZI, GRAZZI_2021

ROOT = Path(__file__).parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_and_the_changelog_name_this_version_and_its_date() -> None:
    version, date = re.findall(r"^(?:version|date-released): (\S+)$", text("CITATION.cff"), re.MULTILINE)
    assert version == boundcheck.__version__
    newest = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.MULTILINE)[1]  # after [Unreleased]
    assert newest == f"[{version}] - {date}"


def test_the_workflow_runs_every_python_that_the_package_names() -> None:
    project = text("pyproject.toml")
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    (matrix,) = re.findall(r"^ +python: \[(.+)\]$", text(".github/workflows/ci.yml"), re.MULTILINE)
    assert re.findall(r'"([\d.]+)"', matrix) == named
    assert f'requires-python = ">={named[0]}"' in project
    assert "- run: .ci/run\n" in text(".github/workflows/ci.yml")


def test_every_extra_is_tried_by_the_release_check() -> None:
    extras = text("pyproject.toml").split("[project.optional-dependencies]")[1].split("\n[")[0]
    (tried,) = re.findall(r"^EXTRAS = \{(.+)\}$", text(".ci/release_check.py"), re.MULTILINE)
    assert sorted(re.findall(r'"(\w+)"', tried)) == sorted(re.findall(r"^(\w+) = \[", extras, re.MULTILINE))


def test_the_citation_names_the_papers_of_the_method_that_are_reproduced() -> None:
    for paper in (GRAZZI, GRAZZI_2021):
        title = re.split(r"S\. Salzo\. ", paper.citation)[1].partition(". ")[0]
        assert f"title: {title}\n" in text("CITATION.cff")
