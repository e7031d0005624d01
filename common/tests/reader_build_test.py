#!/usr/bin/env python3
"""A reader may edit the stages: in a copy of the checkout whose stages hold other text, CMake configures with the tests
and without them, and the tests change nothing of what a reader's stages are compiled with. Compiles nothing.

    reader_build_test.py [CMake option]...
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]


class ReaderBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.checkout = Path(folder.name) / "checkout"
        shutil.copytree(SOURCE, cls.checkout, ignore=shutil.ignore_patterns("build*", ".*"))
        for stage in cls.checkout.glob("[0-9][0-9]_*"):
            for file in (*stage.glob("*.cuh"), *stage.glob("*.cu")):
                file.write_text("int unused;  // no barrier, no text that was here before\n", encoding="utf-8")
        cls.build = Path(folder.name) / "build"

    def configure(self, *options, ci=None):
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        if ci is not None:
            environment["CI"] = ci
        done = subprocess.run(["cmake", "-S", self.checkout, "-B", self.build, *OPTIONS, *options], env=environment,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)

    def commands(self):
        """How each file but those of the tests is compiled."""
        entries = json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8"))
        return {(entry["file"], entry["command"]) for entry in entries if not re.search(r" -o \S*/tests/", entry["command"])}

    def number_of_tests(self):
        listed = subprocess.run(["ctest", "-N"], cwd=self.build, text=True, stdout=subprocess.PIPE, check=False).stdout
        return listed.count("Test #")

    def with_warnings_as_errors(self):
        return {Path(file).suffix for file, command in self.commands() if "-Werror" in command}

    def test_configures_whatever_the_stages_hold(self):
        self.configure()
        self.assertEqual(self.number_of_tests(), 0)
        self.assertEqual(self.with_warnings_as_errors(), set())
        reader = self.commands()
        self.assertTrue(any(file.endswith("main.cu") for file, _ in reader))

        self.configure("-DSOFTMAX_TESTS=ON")
        self.assertGreater(self.number_of_tests(), 100)
        self.assertEqual(self.commands(), reader)  # nothing is compiled again

        # The default is asked for once: a folder stays what it is.
        self.configure(ci="true")
        self.assertEqual(self.commands(), reader)
        self.configure("-UWARNINGS_AS_ERRORS", ci="true")
        self.assertEqual(self.with_warnings_as_errors(), {".cpp", ".cu"})
        without = {file for file, command in self.commands() if "-Werror" not in command}
        self.assertEqual(without, set())


if __name__ == "__main__":
    OPTIONS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
