"""The tables of sweeps: made of rows alone, in any order, with every miss and its cause."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import cases_table
import document
import judged_opinfo
import judged_zoo
import opinfo_table
import rows
import sweep
import zoo_table

HERE = Path(__file__).parent
REFUSED = "UnsupportedOpError: 1 ops of this graph can't be compiled: aten.foo.default (no rule | yet)"


def model(entry: str, status: str = "pass", **more: object) -> dict:
    return {"entry": entry, "status": status, "mode": "infer", "backend_stats": {"fallback_ops": {}, "graphs": 1}, **more}


def put(directory: Path, name: str, *records: dict) -> None:
    with (directory / f"{name}.jsonl").open("a") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """Rows of two processes, a retried model, and what torch's own backend made of the misses."""
    put(tmp_path, "zoo-infer.0", model("hf/b", judged=["out"]), model("tv/a", "wrong", why="out: max abs 3 of scale 2"), model("hf/z", "error", why=REFUSED))
    put(tmp_path, "zoo-infer.1", model("hf/a", "timeout", why="slow"), model("hf/a"), model("hf/e", "eager_error", why="no"))
    put(tmp_path, "zoo-infer.1", model("hf/f", backend_stats={"fallback_ops": {"aten.sort.default": 2}}))
    put(tmp_path, "zoo-infer.1", model("timm/s", "error", why="FileNotFoundError: /home/somebody/x/y.py is not there"))
    put(tmp_path, "zoo-infer.stock", model("tv/a"), model("hf/z"), model("hf/f"), model("timm/s", "error", why="the same"))
    return tmp_path


def test_zoo_counts_and_causes(zoo: Path, tmp_path: Path) -> None:
    zoo_table.write(zoo, tmp_path / "ZOO.md", [])
    text = (tmp_path / "ZOO.md").read_text()
    assert "| infer | all | 7 | 5 | 2 | 40.0 % | 1 | 1 | 1 | 1 |" in text
    assert "| infer | hf | 5 | 4 | 2 | 50.0 % | 1 | 0 | 1 | 1 |" in text
    misses, apart = text.split("### Misses: infer")[1].split("### Not counted: infer")
    assert "| infer | tv/a | wrong | out: max abs 3 of scale 2 |" in misses
    assert "| infer | hf/z | refused | UnsupportedOpError: 1 ops of this graph can't be compiled: aten.foo.default (no rule \\| yet) |" in misses
    assert "| infer | hf/f | falls back | aten.sort.default |" in misses
    assert "| infer | hf/e | eager_error | no |" in apart
    assert "| infer | timm/s | error | FileNotFoundError: y.py is not there |" in apart
    assert "/home" not in text


def test_order_of_rows_and_number_of_processes_do_not_matter(zoo: Path, tmp_path_factory) -> None:
    other = tmp_path_factory.mktemp("other")
    everything = [row for path in sorted(zoo.glob("zoo-infer.[01].jsonl")) for row in rows.read_file(path)]
    put(other, "zoo-infer.0", *reversed(everything))
    put(other, "zoo-infer.stock", *reversed(rows.read_file(zoo / "zoo-infer.stock.jsonl")))
    zoo_table.write(zoo, zoo / "ZOO.md", [])
    zoo_table.write(other, other / "ZOO.md", [])
    assert (zoo / "ZOO.md").read_bytes() == (other / "ZOO.md").read_bytes()


def test_a_section_without_rows_stays(zoo: Path, tmp_path_factory) -> None:
    document_path = zoo / "ZOO.md"
    zoo_table.write(zoo, document_path, [])
    before = document_path.read_text()
    train = tmp_path_factory.mktemp("train")
    put(train, "zoo-train.0", model("hf/a", mode="train"))
    zoo_table.write(train, document_path, [])
    after = document_path.read_text()
    assert after.startswith(before.rstrip("\n")) and "| train | all | 1 | 1 | 1 | 100 % | 0 | 0 | 0 | 0 |" in after
    zoo_table.write(zoo, document_path, ["zoo-infer"])
    assert document_path.read_text() == after, "written again from the same rows it is the same"


def test_ahead_of_time_a_model_passes_if_all_its_graphs_compile(tmp_path: Path) -> None:
    good = {"compiled": 2, "refused": [], "target": "v6e:1x1"}
    bad = {"compiled": 1, "refused": [["backward", "compiling failed: Mosaic said no"]], "target": "v6e:1x1"}
    # What the graph gives in eager PyTorch is no matter here.
    put(tmp_path, "zoo-tpu-train.0", model("hf/a", "wrong", backend_stats=good), model("hf/b", backend_stats=bad), model("hf/c", "crash", backend_stats=None))
    put(tmp_path, "zoo-tpu-train.0", model("hf/d", backend_stats={"compiled": 0, "refused": []}))
    put(tmp_path, "zoo-tpu-train.stock", model("hf/b"), model("hf/c", "crash"), model("hf/d"))
    zoo_table.write(tmp_path, tmp_path / "ZOO.md", [])
    text = (tmp_path / "ZOO.md").read_text()
    assert "| train | all | 4 | 3 | 1 | 33.3 % | 0 | 0 | 1 | 1 |" in text
    assert "3 graphs compiled, 1 did not." in text
    assert "| train | hf/b | refused | backward: compiling failed: Mosaic said no |" in text


def op(name: str, dtype: str, status: str = "pass", **counts: int) -> dict:
    return {"entry": f"{name}/{dtype}", "op": name, "dtype": dtype, "status": status, "counts": counts, "why": f"{REFUSED}  [sample 3]"}


def test_opinfo_counts_samples_and_excuses_no_wrong_number(tmp_path: Path) -> None:
    put(tmp_path, "opinfo-infer.0", op("add", "float32", **{"pass": 5}), op("sub", "float32", "error", **{"pass": 2, "error": 1, "eager_error": 4}))
    put(tmp_path, "opinfo-infer.0", op("mul", "float32", "wrong", wrong=1), op("div", "float32", "error", error=2), op("abs", "int64", "skip"))
    put(tmp_path, "opinfo-infer.stock", op("sub", "float32"), op("mul", "float32", "error", error=1), op("div", "float32", "error", error=2))
    put(tmp_path, "opinfo-train.0", op("add", "float32", **{"pass": 5}))
    output = tmp_path / "OPINFO.md"
    subprocess.run([sys.executable, HERE / "opinfo_table.py", tmp_path, "-o", output], check=True)
    text = output.read_text()
    assert "| infer | float32 | 4 | 3 | 1 | 33.3 % | 1 | 1 | 0 | 7 of 11 |" in text
    assert "| train | float32 | 1 | 1 | 1 | 100 % | 0 | 0 | 0 | 5 of 5 |" in text
    misses, apart = text.split("## Misses")[1].split("## Samples")[0].split("## Not counted")
    assert "| infer | mul | float32 | wrong | 0 of 1 |" in misses and "| infer | div | float32 |" in apart
    assert "| infer | sub | float32 | refused | 2 of 3 |" in misses and "[sample" not in misses
    assert "| add | 5 |  |  |  |  | 5 |" in text and "| sub | 2 of 3 |  |  |  |  |  |" in text


def test_cases_by_setting_and_backend(tmp_path: Path) -> None:
    def case(number: str, status: str, *problems: str) -> dict:
        return {"id": number, "title": f"what | {number}", "status": status, "problems": list(problems)}

    put(tmp_path, "cases-auto-tpu.0", case("02", "ok"), case("01", "FAIL", "call 0 out: 1 vs 2"), case("03", "NOCOMPILE"))
    put(tmp_path, "cases-auto-tpu.stock", case("01", "ok"))
    put(tmp_path, "cases-true-tpud_strict.0", case("02", "ERROR", REFUSED))
    found = {(setting, backend): rows.read(tmp_path, f"cases-{setting}-{backend}") for setting in cases_table.SETTINGS for backend in cases_table.BACKENDS}
    stock = {key: rows.read_stock(tmp_path, "cases-{}-{}".format(*key)) for key in found}
    made = cases_table.sections(found, stock)
    assert made["Summary"][2:] == ["| tpu | auto | 3 | 2 | 1 | 1 | 0 | 0 |", "| tpu_strict | true | 1 | 1 | 0 | 0 | 1 | 0 |"]
    assert made["Misses"][2] == "| 01 | tpu | auto | wrong | call 0 out: 1 vs 2 |"
    assert made["Cases"][2:] == [
        "| 01 | what \\| 01 | wrong |  |  |  |  |  |  |  |",
        "| 02 | what \\| 02 | pass |  |  |  |  | refused |  |  |",
        "| 03 | what \\| 03 | – |  |  |  |  |  |  |  |",
    ]


def test_half_a_last_line_is_an_interrupted_sweep_and_other_rubbish_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "zoo-infer.0", model("hf/a"))
    path = tmp_path / "zoo-infer.0.jsonl"
    path.write_text(path.read_text() + '{"entry": "hf/b", "sta')
    assert [row["entry"] for row in rows.read(tmp_path, "zoo-infer")] == ["hf/a"]
    path.write_text("rubbish\n" + path.read_text())
    with pytest.raises(ValueError, match="zoo-infer.0.jsonl:1 is not JSON"):
        rows.read(tmp_path, "zoo-infer")


def test_a_retry_forgets_what_did_not_pass_and_nothing_else(zoo: Path) -> None:
    rows.forget_failures(zoo, "zoo-infer")
    assert [row["entry"] for row in rows.read(zoo, "zoo-infer")] == ["hf/a", "hf/b"]
    assert len(rows.read_stock(zoo, "zoo-infer")) == 4


@pytest.mark.parametrize("name", sweep.SWEEPS)
def test_every_sweep_has_a_table_and_command_lines_for_shards_and_for_failures(name: str, tmp_path: Path) -> None:
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo/public.txt").write_text("hf/a hf/b hf/c decode/d tv/e")
    run = sweep.Run(tmp_path, tmp_path, 3, 2)
    each = sweep.SWEEPS[name]
    out = tmp_path / f"{name}.0.jsonl"
    ((script, *flags),) = each.command(run, each.backend, out, "0/2", [])
    assert script.endswith(".py") and str(out) in flags and each.backend in flags
    assert ("0/2" in flags) == each.splits
    entry = "a.b/float32" if name.startswith("opinfo") else "hf/a"
    (line,) = each.command(run, sweep.STOCK, tmp_path / f"{name}.stock.jsonl", "", [entry])
    assert sweep.STOCK in line and "--shard" not in line and "--limit" not in line
    tables = [sweeps for sweeps, _ in zoo_table.SECTIONS.values()], opinfo_table.SWEEPS, [f"cases-{s}-{b}" for s in cases_table.SETTINGS for b in cases_table.BACKENDS]
    assert any(name in each for each in (*tables[0], *tables[1:]))


def test_a_wider_answer_judges() -> None:
    exact = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    eagers = (exact + torch.tensor([0.0, 0.1, 0.0])).float()
    for error, why in ((0.39, ""), (0.41, "0.41 from"), (float("inf"), "finite")):
        ours = (exact + torch.tensor([0.0, 0.0, error])).float()
        assert judged_zoo.farther(ours, eagers, exact, 0.0).startswith(why) and bool(why) == bool(judged_zoo.farther(ours, eagers, exact, 0.0))
    assert not judged_zoo.farther((exact + 0.41).float(), eagers, exact, 0.02)
    whole = torch.tensor([1, 2])
    assert judged_zoo.farther(whole, whole + 1, whole, 1.0) and not judged_zoo.farther(whole, whole, whole, 0.0)


class TinyZoo:
    """A zoo with one model, as `judged_zoo` patches it: its gradient is the difference of two large numbers."""

    def __init__(self) -> None:
        self.flat_tensors = lambda out, torch: [out]
        self.named_flat = lambda out, torch: [("out", out)]
        self.zero_dropout = lambda model, torch: None
        self.sum_loss = lambda out, torch: out.sum()
        self.run_entry = lambda entry, options: {"entry": entry, "status": "pass"}
        self.compare = lambda a, b, torch, rtol, atol: (
            {"ok": True} if torch.allclose(a[0][1], b[0], rtol, atol) else {"ok": False, "why": "far", "bad": [a[0][0]]}
        )

    def build_case(self, entry: str, torch, train: bool = False):
        model = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.constant_(model.weight, 1 / 3)
        return types.SimpleNamespace(model=model, make=lambda: torch.tensor([[10000.1, 3.3, -10000.0]]), call=lambda f, x: f(x))


@pytest.mark.parametrize(("dtype", "train"), [("float32", True), ("float32", False), ("bfloat16", False)])
def test_the_judge_excuses_what_eager_itself_can_not_do_better(dtype: str, train: bool) -> None:
    zoo = TinyZoo()
    judge = judged_zoo.Judge(zoo, dtype)
    case = zoo.build_case("hf/a", torch, train)
    assert case.model.weight.dtype == case.make().dtype == getattr(torch, dtype)
    eagers = case.call(case.model, case.make()).detach()
    name, right = ("loss", eagers.sum()) if train else ("out", eagers)
    exact = judge.wide_answer(torch)[name].double()
    error = (eagers.double() - exact).abs().max().item()
    assert error > 0
    near, off = (right.double() + sign * error for sign in (0.5, 40))
    for answer, ok in ((near, True), (off + 1 + exact.abs(), False)):
        answer = answer.to(right.dtype).reshape(right.shape)
        verdict = zoo.compare([(name, right)], [answer], torch, 0.0, 0.0)
        assert verdict["ok"] == ok, (verdict, error)
        # With no tolerance at all eager is outside of it, too; with one that it keeps, the answer is wrong.
        assert ok or verdict["why"].startswith(judged_zoo.ILL_CONDITIONED)
        assert not rows.counted({"entry": "hf/a", "status": "wrong", "why": verdict["why"]}, {}) or ok
        wide = zoo.compare([(name, right)], [answer], torch, 0.0, 1.5 * error)
        assert ok or (not wide["ok"] and wide["why"].startswith(f"{name}: "))
    assert dtype == "bfloat16" or zoo.run_entry("hf/a", None)["judged"] == [name]


@pytest.mark.parametrize("name", judged_opinfo.SORTING)
def test_the_order_of_equals_is_free_and_nothing_else(name: str) -> None:
    x = torch.tensor([[2.0, 1.0, 2.0, 0.0], [3.0, 3.0, 1.0, 5.0]])
    rest = {"topk": (3,), "kthvalue": (3,)}.get(name, ())
    right = getattr(torch, name)

    def other(result, first: int, second: int):
        """The result with two indices exchanged, or the one index replaced."""
        values, indices = judged_opinfo.SORTING[name](result)
        swapped = torch.where(indices == first, second, torch.where(indices == second, first, indices))
        return swapped if values is None else (values, swapped)

    def seen(op):
        found = judged_opinfo.by_value(name, op)(x, *rest)
        return [value for value in found if value is not None]

    expected = seen(right)
    same = seen(lambda *args: other(right(*args), 0, 0))
    assert all(a.equal(b) for a, b in zip(expected, same, strict=True))
    # In the first row 0 and 2 are equals, in the second they are not.
    wrong = seen(lambda *args: other(right(*args), 0, 2))
    assert not all(a.equal(b) for a, b in zip(expected, wrong, strict=True))
    x = x[:1]
    free = seen(lambda *args: other(right(*args), 0, 2))
    assert all(a.equal(b) for a, b in zip(seen(right), free, strict=True))


def test_an_op_is_judged_in_a_wider_type() -> None:
    far = {"ok": False, "why": "far"}
    zoo = types.SimpleNamespace(compare=lambda *_: far, named_flat=lambda out, torch: [("out", out)])
    info = types.SimpleNamespace(name="sum", op=lambda x: x.sum())
    judged_opinfo.Judge(zoo, [info])
    x = torch.tensor([1e4, 1 / 3, -1e4] * 5, dtype=torch.bfloat16)
    eagers = info.op(x)
    exact = x.float().sum()
    error = (eagers.float() - exact).abs() + 2.0**-8 * eagers.abs()
    near, off = exact + error, exact + 5 * error + 1
    assert zoo.compare([("out", eagers)], [near.bfloat16()], torch, 0, 0)["ok"]
    assert "from the wider answer" in zoo.compare([("out", eagers)], [off.bfloat16()], torch, 0, 0)["why"]
    assert zoo.compare([("out", eagers)], [near], torch, 0, 0) is far, "another dtype is wrong whatever it holds"


def test_a_share_is_100_only_where_nothing_is_missing() -> None:
    assert [document.share(*counts) for counts in ((3, 3), (9999, 10000), (0, 0), (1, 3))] == ["100 %", "99.9 %", "–", "33.3 %"]
