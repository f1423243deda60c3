"""Each code block of README and docs is read by the shell, parser or program that it is for."""

from __future__ import annotations

import ast
import configparser
import inspect
import json
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg

from tests.docs.blocks import Block, blocks, commands, here_documents
from tests.docs.commandreaders import is_known
from tests.docs.yamlreaders import read_yaml_block
from tests.helpers.smallsite import SSH_KEY
from weft.app.orderfile import load_order
from weft.config.resolve import resolve, unknown_names
from weft.config.tomltext import read_toml
from weft.generate.partitions_conf import parse
from weft.model.errors import InputErrors
from weft.sdk import PodProxy

BLOCKS = blocks()
LANGUAGES = {"sh", "yaml", "ini", "json", "toml", "conf", "python", "mermaid", "text"}
"""mermaid is generated and compared with its generator; text is for output and drawings."""


def of(language: str) -> list[Any]:
    """The blocks of a language as test parameters, each with file and line as its id."""
    return [pytest.param(block, id=block.place) for block in BLOCKS if block.language == language]


def test_every_block_names_its_language() -> None:
    """A block without one, or in a language unknown here, wouldn't be checked at all."""
    assert [block.place for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", of("sh"))
def test_shell_block_has_commands_that_exist(block: Block, tmp_path: Path) -> None:
    """bash parses the script; programs of weft and OpenStack's client parse the words of their commands;
    here-documents are valid."""
    read = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    (tmp_path / "pod.key.pub").write_text(SSH_KEY)
    for name, text in here_documents(block.text).items():
        script = f"cat <<END\n{text}END\n"  # with the shell's substitutions
        written = subprocess.run(
            ["bash"], input=script, text=True, capture_output=True, cwd=tmp_path, check=True
        )
        if name.endswith(".toml"):
            (tmp_path / "weft.toml").write_text(written.stdout)
            assert list(unknown_names(read_toml(tmp_path / "weft.toml", name))) == []
        elif name.endswith("clouds.yaml"):
            assert list(yaml.safe_load(written.stdout)) == ["clouds"]
        elif name.endswith(".ini"):
            configparser.ConfigParser().read_string(written.stdout)
        elif name.endswith(".json"):
            assert json.loads(written.stdout)
        elif name.endswith(("ufm.yaml", "traffic.yaml")):  # the tests of the guides read these as weft does
            assert yaml.safe_load(written.stdout)
        else:
            load_order(written.stdout, name)
    for other in BLOCKS:  # some commands read such a file
        if other.language == "json" and '"agents"' in other.text:
            (tmp_path / "order.json").write_text(other.text)
    assert [words for words in commands(block.text) if not is_known(words, tmp_path)] == []


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_block_is_valid_for_its_kind_of_file(block: Block, tmp_path: Path) -> None:
    """Orders, sites, lists of machines, settings of agents, policies: whole files, or parts merged into a whole
    one."""
    read_yaml_block(block, tmp_path)


@pytest.mark.parametrize("block", of("ini"))
def test_ini_block_keeps_comments_out_of_values(block: Block, tmp_path: Path) -> None:
    """oslo.config and systemd take everything after `=` for the value, a comment on the same line included."""
    path = tmp_path / "block.conf"
    path.write_text(block.text)
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    values = [value for options in sections.values() for several in options.values() for value in several]
    assert values and [value for value in values if "#" in value] == []


@pytest.mark.parametrize("block", of("json"))
def test_json_block_is_valid(block: Block) -> None:
    assert isinstance(json.loads(block.text), dict)


@pytest.mark.parametrize("block", of("toml"))
def test_toml_block_has_known_settings(block: Block, tmp_path: Path) -> None:
    """Only the files that it names may be missing."""
    (tmp_path / "weft.toml").write_text(block.text)
    with pytest.raises(InputErrors) as caught:
        resolve(read_toml(tmp_path / "weft.toml", "--config"), {})
    assert [str(one) for one in caught.value.errors if not re.search("file", one.allowed)] == []


@pytest.mark.parametrize("block", of("python"))
def test_python_block_calls_existing_verbs(block: Block) -> None:
    """It parses, its imports exist, and calls on `pods` fit the verbs' signatures."""
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert [import_module(name.name) for name in node.names]
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    verbs = [(c.func.attr, c) for c in calls if isinstance(c.func, ast.Attribute)
             and isinstance(c.func.value, ast.Name) and c.func.value.id == "pods"]  # fmt: skip
    assert verbs
    for name, call in verbs:
        given = {word.arg: None for word in call.keywords if word.arg is not None}
        inspect.signature(getattr(PodProxy, name)).bind(None, *call.args, **given)


@pytest.mark.parametrize("block", of("conf"))
def test_partitions_block_is_read_without_problems(block: Block) -> None:
    """By weft's parser of OpenSM's partitions file, which other tests compare with OpenSM itself."""
    assert list(parse(block.text, "north").problems) == []
