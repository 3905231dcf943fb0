"""Tests that the suite names what the harness has, in the harness's own arguments."""

import unittest

import datasets
import harness
import suite
import yaml

_VALUES = {
    "staged": "/ckpt/step_1", "dataset": "copy", "out": "/out", "shard": "0", "shards": "1",
    "first_item": "0", "last_item": "9",
}  # fmt: skip


class SuiteTest(unittest.TestCase):
    def test_the_suite_lists_each_dataset_of_the_harness(self) -> None:
        for adapter in ("command", "session"):
            entries = yaml.safe_load(suite.suite(adapter))["datasets"]
            self.assertEqual(sorted(entry["name"] for entry in entries), sorted(datasets.ALL))
            for entry in entries:
                self.assertEqual(entry["args"], ["--items", str(entry["items"])])

    def test_the_harness_takes_the_arguments_of_the_suite(self) -> None:
        for adapter, command in (("command", "infer"), ("session", "session")):
            stages = yaml.safe_load(suite.suite(adapter))["stages"]
            args = [] if command == "session" else ["--items", "10"]
            argv = [word.format(**_VALUES) for word in stages["inference"]["argv"][2:]]
            self.assertEqual(harness.parse(argv + args).command, command)
            argv = [word.format(**_VALUES) for word in stages["metric"]["argv"][2:]]
            self.assertEqual(harness.parse([*argv, "--items", "10"]).command, "score")

    def test_the_two_suites_have_names_of_their_own(self) -> None:
        names = [
            yaml.safe_load(suite.suite(adapter))["suite"] for adapter in ("command", "session")
        ]
        self.assertEqual(names, ["demo", "demo-session"])
