#!/usr/bin/env python3
"""Random straight-line programs, run as kernels and on the host: both must give the same bits.

    random_programs.py write SEED FILE.cu [--programs N]     writes N functions (default 40) and the program that runs them
    random_programs.py run FOLDER [--seeds 1-100] [--seconds S] [--simulator LIBRARY_FOLDER]
                                                             writes, compiles and runs one seed after the other in FOLDER
    random_programs.py compare FOLDER [--seeds 1-20] [--simulator LIBRARY_FOLDER]
                                                             runs the programs in FOLDER, and those of these seeds, on
                                                             the GPU and on the simulator

`run` keeps programs that differ from the host. `compare` takes FOLDER's executables, compiles sources that have none, and says
"equal", or names the functions that gave something else on the GPU than on the simulator, or than on the host. LIBRARY_FOLDER
is build/simulator unless told otherwise; with --simulator '' `run` uses the GPU. Exit codes: 0 equal, 1 not, 2 bad usage, 3 no GPU.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "u128", "i128")
WORDS = ("u32", "i32", "u64", "i64")
FLOATS = {"f32": "float", "f64": "double"}
SMALL = {"f16": "F16", "bf16": "Bf16"}
# As C++ has them: small floating-point numbers are their bits.
CPP = {**{name: name for name in INTEGERS}, **FLOATS, "f16": "u16", "bf16": "u16", "f16x2": "u32"}
CONSTRAINT = {"u16": "h", "i16": "h", "f16": "h", "bf16": "h", "u32": "r", "i32": "r", "f16x2": "r"}
CONSTRAINT |= {"u64": "l", "i64": "l", "f32": "f", "f64": "d"}
PTX = {"i16": "s16", "i32": "s32", "i64": "s64"}  # the others have PTX's names
DIRECTIONS = ("rn", "rz", "rm", "rp")
INTRINSIC = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}
CLEAN = {"f32": "clean", "f64": "clean", "f16": "clean_f16", "bf16": "clean_bf16"}


@dataclass(frozen=True)
class Operation:
    """{0}, {1}, ... are the arguments in both texts; an `asm` text is PTX with %0 for the result."""

    result: str
    arguments: tuple[str, ...]
    device: str
    host: str
    asm: bool = False


class Table:
    """Families of operations: one is chosen as often as another, however many operations it has."""

    def __init__(self) -> None:
        self.families: list[list[Operation]] = []

    def family(self) -> None:
        self.families.append([])

    def both(self, result: str, arguments: str, text: str) -> None:
        self.families[-1].append(Operation(result, tuple(arguments.split()), text, text))

    def call(self, result: str, arguments: str, device: str, host: str) -> None:
        self.families[-1].append(Operation(result, tuple(arguments.split()), device, host))

    def ptx(self, result: str, arguments: str, opcode: str, host: str, last: str = "") -> None:
        words = tuple(arguments.split())
        operands = ", ".join(f"%{i}" for i in range(len(words) + 1))
        self.families[-1].append(Operation(result, words, f"{opcode} {operands}{last};", host, asm=True))


def whole_numbers(table: Table) -> None:
    for function in ("add", "sub", "mul", "divide", "remainder_of"):
        table.family()
        for t in INTEGERS:
            table.both(t, f"{t} {t}", f"{function}<{t}>({{0}}, {{1}})")
    for function in ("shift_left", "shift_right"):
        table.family()
        for t in INTEGERS:
            table.both(t, f"{t} u32", f"{function}<{t}>({{0}}, {{1}})")
    for operator in ("&", "|", "^"):
        table.family()
        for t in INTEGERS:
            table.both(t, f"{t} {t}", f"static_cast<{t}>({{0}} {operator} {{1}})")
    table.family()
    for t in INTEGERS:
        table.both(t, t, f"static_cast<{t}>(~{{0}})")
        table.both(t, t, f"sub<{t}>(0, {{0}})")
        table.both(t, f"{t} {t}", "({0} < {1} ? {0} : {1})")
        table.both(t, f"{t} {t}", "({0} < {1} ? {1} : {0})")
        if t[0] == "i":
            table.both(t, t, f"absolute<{t}>({{0}})")
    table.family()
    for t in INTEGERS:
        for relation in ("<", "<=", "==", "!=", ">", ">="):
            table.both("u32", f"{t} {t}", f"({{0}} {relation} {{1}} ? 1U : 0U)")
            table.both(t, f"{t} {t} {t} {t}", f"({{0}} {relation} {{1}} ? {{2}} : {{3}})")
            table.both("u64", f"{t} {t} f32 f32 u64 u64", f"({{0}} {relation} {{1}} && {{2}} < {{3}} ? {{4}} : {{5}})")
            table.both("i32", f"{t} {t} u16 u16 i32 i32", f"(({{0}} {relation} {{1}}) != ({{2}} > {{3}}) ? {{4}} : {{5}})")
    table.family()
    for to in INTEGERS:
        for t in INTEGERS:
            if to != t:
                table.both(to, t, f"static_cast<{to}>({{0}})")
    table.family()
    for t, name in {"u32": "__umulhi", "i32": "__mulhi", "u64": "__umul64hi", "i64": "__mul64hi"}.items():
        table.call(t, f"{t} {t}", f"{name}({{0}}, {{1}})", f"mul_hi<{t}>({{0}}, {{1}})")
        table.ptx(t, f"{t} {t} {t}", f"mad.hi.{PTX.get(t, t)}", f"add<{t}>(mul_hi<{t}>({{0}}, {{1}}), {{2}})")
    for t in ("u16", "i16"):
        table.ptx(t, f"{t} {t}", f"mul.hi.{PTX.get(t, t)}", f"mul_hi<{t}>({{0}}, {{1}})")
    table.family()
    for t, suffix in {"u32": "", "u64": "ll"}.items():
        for name in ("popc", "clz"):
            table.call("u32", t, f"static_cast<u32>(__{name}{suffix}({{0}}))", f"{name}<{t}>({{0}})")
        table.call(t, t, f"__brev{suffix}({{0}})", f"brev<{t}>({{0}})")
        table.call("i32", t, f"__ffs{suffix}(static_cast<{t.replace('u', 'i')}>({{0}}))", f"ffs_of<{t}>({{0}})")
    for t in WORDS:
        table.ptx("u32", t, f"bfind.{PTX.get(t, t)}", f"find_leading<{t}>({{0}})")
        bits = int(t[1:])
        table.ptx("u32", t, f"bfind.shiftamt.{PTX.get(t, t)}",
                  f"(find_leading<{t}>({{0}}) > {bits}U ? ~0U : {bits - 1}U - find_leading<{t}>({{0}}))")  # fmt: skip
    table.family()
    for side, of in (("l", "left"), ("r", "right")):
        table.call("u32", "u32 u32 u32", f"__funnelshift_{side}({{0}}, {{1}}, {{2}})", f"funnel_{of}({{0}}, {{1}}, {{2}} & 31U)")
        table.call("u32", "u32 u32 u32", f"__funnelshift_{side}c({{0}}, {{1}}, {{2}})",
                   f"funnel_{of}({{0}}, {{1}}, std::min<u32>({{2}}, 32))")  # fmt: skip
    table.family()
    table.call("u32", "u32 u32 u32", "__byte_perm({0}, {1}, {2})", "permute({0}, {1}, {2} & 0x7777U)")
    table.ptx("u32", "u32 u32 u32", "prmt.b32", "permute({0}, {1}, {2})")
    table.family()
    for t in WORDS:
        table.ptx(t, f"{t} u32 u32", f"bfe.{PTX.get(t, t)}", f"extract<{t}>({{0}}, {{1}}, {{2}})")
    for t in ("u32", "u64"):
        table.ptx(t, f"{t} {t} u32 u32", f"bfi.b{t[1:]}", f"insert<{t}>({{0}}, {{1}}, {{2}}, {{3}})")
    table.family()
    for row in (0x1B, 0x2D, 0x4E, 0x6A, 0x78, 0x96, 0xB8, 0xCA, 0xD1, 0xE8):
        table.ptx("u32", "u32 u32 u32", "lop3.b32", f"logic({{0}}, {{1}}, {{2}}, {row})", last=f", {row}")
    table.family()
    for t in ("u16", "i16", *WORDS):
        table.ptx(t, f"{t} {t} {t}", f"sad.{PTX.get(t, t)}", f"absolute_difference<{t}>({{0}}, {{1}}, {{2}})")
    table.ptx("i32", "i32 i32", "add.sat.s32", "saturating(i64{{{0}}} + {1})")
    table.ptx("i32", "i32 i32", "sub.sat.s32", "saturating(i64{{{0}}} - {1})")
    for a, of_a in (("u32", "u8"), ("s32", "i8")):
        for b, of_b in (("u32", "u8"), ("s32", "i8")):
            table.ptx("u32", "u32 u32 u32", f"dp4a.{a}.{b}", f"dot4<{of_a}, {of_b}>({{0}}, {{1}}, {{2}})")
    table.call("i32", "i32 i32", "__hadd({0}, {1})", "static_cast<i32>((i64{{{0}}} + {1}) >> 1)")
    table.call("i32", "i32 i32", "__rhadd({0}, {1})", "static_cast<i32>((i64{{{0}}} + {1} + 1) >> 1)")
    table.call("u32", "u32 u32", "__uhadd({0}, {1})", "static_cast<u32>((u64{{{0}}} + {1}) >> 1U)")
    table.call("i32", "i32 i32", "__mul24({0}, {1})",
               "static_cast<i32>((i64{{{0}}} << 40 >> 40) * (i64{{{1}}} << 40 >> 40))")  # fmt: skip
    table.family()
    for to in ("u16", "i16", *WORDS):
        for t in ("u16", "i16", *WORDS):
            narrows = int(t[1:]) > int(to[1:]) or (t[0] != to[0] and (t[0] == "i" or t[1:] == to[1:]))
            if narrows:
                table.ptx(to, t, f"cvt.sat.{PTX.get(to, to)}.{PTX.get(t, t)}", f"clamped<{to}>({{0}})")


def floats(table: Table) -> None:
    for operator in ("+", "-", "*", "/"):
        table.family()
        for t in FLOATS:
            table.both(t, f"{t} {t}", f"({{0}} {operator} {{1}})")
    for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("div", 2), ("fma", 3), ("sqrt", 1), ("rcp", 1)):
        table.family()
        operands = ", ".join(f"{{{i}}}" for i in range(arity))
        for t, cpp in FLOATS.items():
            for direction in DIRECTIONS:
                prefix = {"f32": "f", "f64": "d"}[t] + name if name != "fma" else {"f32": "fmaf", "f64": "fma"}[t]
                table.call(t, " ".join([t] * arity), f"__{prefix}_{INTRINSIC[direction]}({operands})",
                           f"{name}_float<{cpp}>({direction}, {operands})")  # fmt: skip
        if name in ("add", "sub", "mul", "fma"):
            words = " ".join(["f32"] * arity)
            for direction in DIRECTIONS:
                exact = f"{name}_float<float>({direction}, {operands})"
                table.ptx("f32", words, f"{name}.{direction}.sat.f32", f"saturated({exact})")
            # The device looks before it rounds.
            from_zero = ", ".join(f"flushed({{{i}}})" for i in range(arity))
            table.ptx("f32", words, f"{name}.rn.ftz.f32",
                      f"(flushed({name}_float<float>(rz, {from_zero})) == 0 ? flushed({name}_float<float>(rz, {from_zero})) : "
                      f"{name}_float<float>(rn, {from_zero}))")  # fmt: skip
    table.family()
    for t in FLOATS:
        suffix = "f" if t == "f32" else ""
        table.call(t, f"{t} {t}", f"fmin{suffix}({{0}}, {{1}})", "min_float({0}, {1})")
        table.call(t, f"{t} {t}", f"fmax{suffix}({{0}}, {{1}})", "max_float({0}, {1})")
        table.both(t, f"{t} {t}", f"copysign{suffix}({{0}}, clean({{1}}))")
        table.both(t, t, f"fabs{suffix}({{0}})")
        table.both(t, t, "(-{0})")
        for name in ("trunc", "floor", "ceil", "rint", "round"):
            table.both(t, t, f"{name}{suffix}({{0}})")
        table.both(t, f"{t} {t}", f"fdim{suffix}({{0}}, {{1}})")
    table.ptx("f32", "f32 f32", "min.NaN.f32", "nan_or({0}, {1}, min_float({0}, {1}))")
    table.ptx("f32", "f32 f32", "max.NaN.f32", "nan_or({0}, {1}, max_float({0}, {1}))")
    table.call("f32", "f32", "__saturatef({0})", "saturated({0})")
    table.both("f32", "f32 i32", "ldexpf({0}, {1} % 300)")
    table.both("f64", "f64 i32", "ldexp({0}, {1} % 2200)")
    table.both("f32", "f32 f32", "nextafterf({0}, {1})")
    table.both("f32", "f32 f32", "fmodf({0}, {1})")
    table.family()
    for t in FLOATS:
        for relation in ("<", "<=", "==", "!=", ">", ">="):
            for not_it in ("", "!"):
                table.both("u32", f"{t} {t}", f"({not_it}({{0}} {relation} {{1}}) ? 1U : 0U)")
                table.both(t, f"{t} {t} {t} {t}", f"({not_it}({{0}} {relation} {{1}}) ? {{2}} : {{3}})")
                table.both("i64", f"{t} {t} i64 i64", f"({not_it}({{0}} {relation} {{1}}) ? {{2}} : {{3}})")
    for t, integer in {"f32": "u32", "f64": "u64"}.items():
        table.family()
        table.both(t, integer, f"cut<{FLOATS[t]}>({{0}})")
        table.both(integer, t, f"cut<{integer}>(clean({{0}}))")


def small_floats(table: Table) -> None:
    for t, host in SMALL.items():
        for name in ("add", "sub", "mul"):
            table.family()
            table.ptx(t, f"{t} {t}", f"{name}.rn.{t}", f"{host}::{name}({{0}}, {{1}})")
            if t == "f16":
                table.ptx(t, f"{t} {t}", f"{name}.rn.sat.{t}", f"{host}::saturated({host}::{name}({{0}}, {{1}}))")
                table.ptx("f16x2", "f16x2 f16x2", f"{name}.rn.f16x2", f"each_half(&F16::{name}, {{0}}, {{1}})")
        table.family()
        table.ptx(t, f"{t} {t} {t}", f"fma.rn.{t}", f"{host}::fma({{0}}, {{1}}, {{2}})")
        table.ptx(t, f"{t} {t} {t}", f"fma.rn.relu.{t}", f"{host}::relu({host}::fma({{0}}, {{1}}, {{2}}))")
        if t == "f16":
            table.ptx(t, f"{t} {t} {t}", f"fma.rn.sat.{t}", f"{host}::saturated({host}::fma({{0}}, {{1}}, {{2}}))")
        table.family()
        for name in ("min", "max"):
            table.ptx(t, f"{t} {t}", f"{name}.{t}", f"{host}::{name}({{0}}, {{1}})")
            table.ptx(t, f"{t} {t}", f"{name}.NaN.{t}", f"{host}::{name}_nan({{0}}, {{1}})")
            if t == "f16":
                table.ptx("f16x2", "f16x2 f16x2", f"{name}.f16x2", f"each_half(&F16::{name}, {{0}}, {{1}})")
        table.ptx(t, t, f"neg.{t}", "static_cast<u16>({0} ^ 0x8000U)")
        table.ptx(t, t, f"abs.{t}", "static_cast<u16>({0} & 0x7fffU)")
        table.family()
        for relation, ptx in {"<": "lt", ">=": "ge", "==": "eq"}.items():
            less = f"{{{{ .reg .pred %p; setp.{ptx}.{t} %p, %1, %2; selp.b16 %0, %1, %2, %p; }}}}"
            text = f"({host}::value({{0}}) {relation} {host}::value({{1}}) ? {{0}} : {{1}})"
            table.families[-1].append(Operation(t, (t, t), less, text, asm=True))
        table.both("u16", t, f"{CLEAN[t]}({{0}})")
        table.both(t, "u16", "{0}")
        if t == "f16":
            for direction in DIRECTIONS:
                table.ptx(t, t, f"cvt.{direction}i.{t}.{t}", f"{host}::whole({direction}, {{0}})")
    table.both("f16x2", "f16 f16", "(u32{{clean_f16({0})}} << 16U | clean_f16({1}))")
    table.both("f16", "f16x2", "static_cast<u16>({0} >> 16U)")


def conversions(table: Table) -> None:
    """Between all types of floating-point numbers, and between them and integers."""
    table.family()
    for direction in DIRECTIONS:
        table.call("f32", "f64", f"__double2float_{INTRINSIC[direction]}({{0}})", f"convert_float<float>({direction}, {{0}})")
        table.ptx("f16", "f32", f"cvt.{direction}.f16.f32", f"F16::from({direction}, {{0}})")
        table.ptx("f16", "f64", f"cvt.{direction}.f16.f64", f"F16::from({direction}, {{0}})")
        table.ptx("bf16", "f64", f"cvt.{direction}.bf16.f64", f"Bf16::from({direction}, {{0}})")
        table.ptx("bf16", "f16", f"cvt.{direction}.bf16.f16", f"Bf16::from({direction}, F16::value({{0}}))")
        table.ptx("f16", "bf16", f"cvt.{direction}.f16.bf16", f"F16::from({direction}, Bf16::value({{0}}))")
    for direction in ("rn", "rz"):
        table.ptx("bf16", "f32", f"cvt.{direction}.bf16.f32", f"Bf16::from({direction}, {{0}})")
        table.ptx("f16", "f32", f"cvt.{direction}.relu.f16.f32", f"F16::relu(F16::from({direction}, {{0}}))")
        table.ptx("f16x2", "f32 f32", f"cvt.{direction}.f16x2.f32",
                  f"(u32{{{{F16::from({direction}, {{0}})}}}} << 16U | F16::from({direction}, {{1}}))")  # fmt: skip
    table.both("f64", "f32", "static_cast<double>({0})")
    table.family()
    for small, host in SMALL.items():
        for t, cpp in FLOATS.items():
            table.ptx(t, small, f"cvt.{t}.{small}", f"static_cast<{cpp}>({host}::value({{0}}))")
    table.family()
    for direction in DIRECTIONS:
        for t in ("u16", "i16", *WORDS):
            name = PTX.get(t, t)
            for source in FLOATS:
                table.ptx(t, source, f"cvt.{direction}i.{name}.{source}", f"to_integer<{t}>({direction}, {{0}})")
            for source, host in SMALL.items():
                table.ptx(t, source, f"cvt.{direction}i.{name}.{source}", f"{host}::to_integer<{t}>({direction}, {{0}})")
    table.family()
    for direction in DIRECTIONS:
        for t in ("u16", "i16", *WORDS):
            name = PTX.get(t, t)
            for target, cpp in FLOATS.items():
                table.ptx(target, t, f"cvt.{direction}.{target}.{name}", f"convert_float<{cpp}>({direction}, {{0}})")
            for target, host in SMALL.items():
                table.ptx(target, t, f"cvt.{direction}.{target}.{name}", f"{host}::from({direction}, {{0}})")
    table.family()
    for t in INTEGERS[:8]:
        for target, cpp in FLOATS.items():
            table.both(target, t, f"static_cast<{cpp}>({{0}})")


TABLE = Table()
for fill in (whole_numbers, floats, small_floats, conversions):
    fill(TABLE)


@dataclass
class Variable:
    name: str
    type: str
    is_used: bool = False


class Program:
    """One function, as text for the device and for the host."""

    statements = 30

    def __init__(self, number: int, chooser: random.Random, writes_all: bool) -> None:
        self.writes_all = writes_all
        self.name = f"program_{number}"
        self.chooser = chooser
        self.variables: list[Variable] = []
        self.device: list[str] = []
        self.host: list[str] = []
        for _ in range(self.statements):
            if chooser.random() < 0.05:
                self.add_carry_chain()
            else:
                self.add(chooser.choice(chooser.choice(TABLE.families)))

    def new_variable(self, kind: str) -> Variable:
        self.variables.append(Variable(f"v{len(self.variables)}", kind))
        return self.variables[-1]

    def input(self, kind: str) -> Variable:
        words = [f"in[{self.chooser.randrange(10)}]" for _ in range(2)]
        wide = f"static_cast<{kind}>(static_cast<u128>({words[0]}) << 64U | {words[1]})"
        variable = self.new_variable(kind)
        text = f"const {CPP[kind]} {variable.name} = " + (wide if "128" in kind else f"cut<{CPP[kind]}>({words[0]})") + ";"
        self.device.append(text)
        self.host.append(text)
        return variable

    def constant(self, kind: str) -> str:
        if kind in FLOATS:
            value = self.chooser.choice([0.0, 1.0, -1.0, 0.5, 3.0, 1e-3, 1e10, 16777217.0, self.chooser.uniform(-4, 4)])
            return f"static_cast<{FLOATS[kind]}>({value.hex()})"
        bits = 64 if kind.endswith("128") else int(re.sub(r"^bf|x2|\D", "", kind)) * (2 if kind == "f16x2" else 1)
        value = self.chooser.choice([0, 1, 2, 3, 5, 7, 8, 31, 32, 100, (1 << bits) - 1, 1 << (bits - 1), self.chooser.getrandbits(bits)])
        return f"static_cast<{CPP[kind]}>({value % (1 << bits)}ULL)"

    def argument(self, kind: str) -> str:
        if kind in (*INTEGERS, *FLOATS) and self.chooser.random() < 0.15:
            return self.constant(kind)
        there = [variable for variable in self.variables if variable.type == kind]
        if len(there) < 2 or self.chooser.random() < 0.15:
            there = [self.input(kind)]
        unused = [variable for variable in there if not variable.is_used]
        variable = self.chooser.choice(unused if unused and self.chooser.random() < 0.6 else there)
        variable.is_used = True
        return variable.name

    def add(self, operation: Operation) -> None:
        arguments = [self.argument(kind) for kind in operation.arguments]
        variable = self.new_variable(operation.result)
        of_type = CPP[operation.result]
        self.host.append(f"const {of_type} {variable.name} = {operation.host.format(*arguments)};")
        if not operation.asm:
            self.device.append(f"const {of_type} {variable.name} = {operation.device.format(*arguments)};")
            return
        sources = ", ".join(f'"{CONSTRAINT[kind]}"({value})' for kind, value in zip(operation.arguments, arguments))
        ptx = operation.device.replace("{{", "{").replace("}}", "}").replace("%p", "%%p")
        self.device.append(f"{of_type} {variable.name};")
        self.device.append(f'asm("{ptx}" : "={CONSTRAINT[operation.result]}"({variable.name}) : {sources});')

    def add_carry_chain(self) -> None:
        """add.cc, subc.cc and their like in any order."""
        kind = self.chooser.choice(["u32", "u64"])
        links = self.chooser.randrange(2, 5)
        arguments = [self.argument(kind) for _ in range(3 * links)]
        results = [self.new_variable(kind) for _ in range(links)]
        ptx, host = [], ["bool carry = false;"]
        for i, result in enumerate(results):
            a, b, c = arguments[3 * i : 3 * i + 3]
            name = self.chooser.choice(["add", "sub", "mad.lo", "mad.hi"])
            with_carry = "c" if i > 0 and self.chooser.random() < 0.9 else ""
            opcode = name.replace(".", f"{with_carry}.", 1) if "." in name else name + with_carry
            last = ".cc" if i + 1 < links else ""
            operands = [f"%{i}", *(f"%{links + 3 * i + j}" for j in range(3 if "." in name else 2))]
            ptx.append(f"{opcode}{last}.{kind} {', '.join(operands)};")
            if with_carry == "":
                host.append(f"carry = {'true' if name == 'sub' else 'false'};")
            first = f"({a})" if "." not in name else f"({kind})((u128({a}) * ({b})) >> {kind[1:] if name == 'mad.hi' else 0})"
            second = {"add": f"({b})", "sub": f"({kind})(~({b}))"}.get(name, f"({c})")
            # An instruction that does not write the flag leaves it.
            host.append(f"{'' if last else 'static_cast<void>(carry); '}{result.name} = add_carry<{kind}>({first}, {second}, carry);")
        declaration = f"{kind} {', '.join(result.name for result in results)};"
        targets = ", ".join(f'"=&{CONSTRAINT[kind]}"({result.name})' for result in results)
        sources = ", ".join(f'"{CONSTRAINT[kind]}"({value})' for value in arguments)
        self.device += [declaration, f'asm("{" ".join(ptx)}" : {targets} : {sources});']
        self.host += [declaration, "{", *host, "}"]

    def outputs(self) -> list[tuple[str, str]]:
        """The variables that no statement uses, or all: a name, and the text that makes a word of it."""
        found = []
        for variable in self.variables:
            if variable.is_used and not self.writes_all:
                continue
            value = f"{CLEAN[variable.type]}({variable.name})" if variable.type in CLEAN else variable.name
            if variable.type == "f16x2":
                value = f"(u32{{clean_f16(static_cast<u16>({value} >> 16U))}} << 16U | clean_f16(static_cast<u16>({value})))"
            if variable.type.endswith("128"):
                found.append((f"{variable.name} (high)", f"static_cast<u64>(static_cast<u128>({value}) >> 64U)"))
                value = f"static_cast<u64>({value})"
            found.append((variable.name, f"bits({value})"))
        return found

    def text(self) -> str:
        outputs = self.outputs()
        ends = [f"out[{i}] = {text};" for i, (_, text) in enumerate(outputs)]
        lines = [f"__device__ void device_{self.name}(const u64* in, u64* out) {{", *self.device, *ends, "}"]
        lines += [f"void host_{self.name}(const u64* in, u64* out) {{", *self.host, *ends, "}"]
        lines += [f"__global__ void kernel_{self.name}(const u64* in, u64* out) {{"]
        lines += ["const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;"]
        # In every second block three lanes of a warp run it alone, then the others: the simulator has separate loops for both.
        lines += ["const bool alone = blockIdx.x % 2 == 1 && threadIdx.x % 11 == 0;", "#pragma unroll 1"]
        lines += ["for (int turn = 0; turn < 2; ++turn) {"]
        lines += [f"if (alone == (turn == 0)) device_{self.name}(in + thread * program_inputs, out + thread * {len(outputs)}U);", "}", "}"]
        return "\n".join(lines)

    def entry(self) -> str:
        launch = f"[](const u64* in, u64* out, int threads) {{ kernel_{self.name}<<<threads / 64, 64>>>(in, out); }}"
        values = ", ".join(f'"{name}"' for name, _ in self.outputs())
        return f'{{"{self.name}", {launch}, &host_{self.name}, {{{values}}}}},'


def source(seed: int, count: int, writes_all: bool) -> str:
    chooser = random.Random(seed)
    programs = [Program(number, chooser, writes_all) for number in range(count)]
    lines = [f"// random_programs.py write {seed} --programs {count}", '#include "random_programs.h"', "namespace {"]
    lines += [program.text() for program in programs]
    lines += ["}", "int main() {", "return run_random_programs({", *(program.entry() for program in programs), f"}}, {seed}U);", "}"]
    return "\n".join(lines) + "\n"


# Denormals and NaN as IEEE has them; the host computes in the rounding mode that it is told, and contracts nothing.
# ptxas does not optimize: that of CUDA 13.0 makes x of add.sat(x - 1, 1), takes |-32768| for positive when it is shifted
# right, and -1 of lop3(a, b, b, 27) ^ b, which is a | ~b.
FLAGS = ["-Xptxas=-O0", "-std=c++20", "-fmad=false", "-ftz=false", "--no-compress", f"-I{HERE}", "-cudart=shared", "-w"]
HOST_FLAGS = ["-ffp-contract=off", "-frounding-math", "-fno-strict-aliasing"]


def compile_program(file: Path, architecture: str) -> Path:
    executable = file.with_suffix("")
    command = ["nvcc", f"-arch={architecture}", *FLAGS, f"-Xcompiler={','.join(HOST_FLAGS)}", str(file), "-o", str(executable)]
    subprocess.run(command, check=True)
    return executable


def output_of(executable: Path, simulator: str) -> tuple[int, str]:
    path = os.pathsep.join(filter(None, [simulator, os.environ.get("LD_LIBRARY_PATH", "")]))
    done = subprocess.run([str(executable)], env={**os.environ, "LD_LIBRARY_PATH": path}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run(folder: Path, seeds: range, seconds: float, programs: int, writes_all: bool, simulator: str, architecture: str) -> int:
    end = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    wrong = done = 0
    for seed in seeds:
        if time.monotonic() > end:
            break
        file = folder / f"seed_{seed}.cu"
        file.write_text(source(seed, programs, writes_all))
        executable = compile_program(file, architecture)
        code, output = output_of(executable, simulator)
        done += 1
        if code == 0:
            file.unlink()
            executable.unlink()
            continue
        wrong += 1
        print(f"seed {seed}:", *[line for line in output.splitlines() if not re.search(r"^program_\d+ [0-9a-f]{16}$", line)], sep="\n  ", flush=True)
    print(f"{done} seeds of {programs} programs, {wrong} with differences")
    return 1 if wrong else 0


def compare(folder: Path, seeds: range, programs: int, simulator: str, architecture: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / f"seed_{seed}.cu").write_text(source(seed, programs, False))
    def is_compiled(file: Path) -> bool:
        executable = file.with_suffix("")
        return executable.exists() and executable.stat().st_mtime >= file.stat().st_mtime

    sources = [file for file in sorted(folder.glob("*.cu")) if not is_compiled(file)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda file: compile_program(file, architecture), sources))
    executables = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix == "" and os.access(file, os.X_OK))
    if not executables:
        sys.exit(f"random_programs.py: nothing to run in {folder}")
    differences = 0
    for executable in executables:
        (code, there), (_, here) = output_of(executable, ""), output_of(executable, simulator)
        if code == 3:
            print("no usable NVIDIA GPU")
            return 3
        on_gpu, simulated = there.splitlines(), here.splitlines()
        if on_gpu == simulated and "WRONG" not in there:
            continue
        pairs = [(a, b) for a, b in zip(on_gpu, simulated) if a != b or "WRONG" in a]
        pairs = pairs or [("\n".join(on_gpu), "\n".join(simulated))]
        differences += len(pairs)
        for a, b in pairs:
            print(f"{executable.name}:\n  GPU:       {a}\n  simulator: {b}")
    print(f"{len(executables)} executables: " + ("equal" if differences == 0 else f"{differences} differences"))
    return 1 if differences else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["write", "run", "compare"])
    parser.add_argument("words", nargs="+", metavar="SEED FILE.cu | FOLDER")
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--seeds", help="1-100, or one; run: all from 1 on")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--simulator", default="build/simulator")
    parser.add_argument("--every-value", action="store_true", help="programs write all of their variables: finds the statement")
    parser.add_argument("--arch", default="sm_90", help="nvcc's -arch: compute_90 is faster, but the PTX is not assembled")
    arguments = parser.parse_args()
    if len(arguments.words) != (2 if arguments.command == "write" else 1):
        parser.error("write takes a seed and a file, run and compare a folder")
    if arguments.command == "write":
        Path(arguments.words[1]).write_text(source(int(arguments.words[0]), arguments.programs, arguments.every_value))
        return 0
    folder = Path(arguments.words[0])
    first, _, last = (arguments.seeds or "").partition("-")
    seeds = range(int(first), int(last or first) + 1) if first else range(0)
    if arguments.command == "compare":
        return compare(folder, seeds, arguments.programs, arguments.simulator, arguments.arch)
    seeds = seeds or range(1, sys.maxsize)
    return run(folder, seeds, arguments.seconds, arguments.programs, arguments.every_value, arguments.simulator, arguments.arch)


if __name__ == "__main__":
    sys.exit(main())
