"""`process`: what a model can do with what runs in the background."""

from __future__ import annotations

from pathlib import Path

from cli._tool import running
from tools._use import Tools, tools


async def started(use: Tools, command: str, **more: bool) -> str:
    job = (await use("terminal", command=command, background=True, **more)).job
    assert job is not None
    return job


async def test_list_output_wait_and_kill(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        assert "nothing runs" in (await use("process", action="list")).text
        slow = await started(use, "echo begun; sleep 4712.1")
        quick = await started(use, "sleep 0.4; seq 3; exit 4")
        found = await use("process", action="list")
        assert [one["id"] for one in found.data["jobs"]] == [slow, quick]
        assert "sleep 4712.1" in found.text and "<data-" in found.text
        done = await use("process", action="wait", id=quick, timeout=10)
        assert (done.data["exit_code"], done.data["output"]) == (4, "1\n2\n3\n")
        waited = await use("process", action="wait", id=slow, timeout=0.2)
        assert waited.data["status"] == "running" and "nothing was ended" in waited.text
        assert waited.data["output"] == "begun\n"
        ended = await use("process", action="kill", id=slow)
        assert ended.data["state"] == "killed" and not running("4712.1")
        again = await use("process", action="kill", id=slow)
        assert "had ended before" in again.text
        states = {one["id"]: one["state"] for one in (await use("process", action="list")).data["jobs"]}
        assert states[slow] == "killed" and states[quick] == "exited"


async def test_long_output_is_read_by_offset(tmp_path: Path) -> None:
    async with tools(tmp_path, {"tool_use.max_output": 8192}) as use:
        job = await started(use, "sleep 0.3; seq 20000")
        await use("process", action="wait", id=job, timeout=20)
        end = await use("process", action="output", id=job)
        assert end.data["output"].endswith("20000\n") and end.data["next"] == end.data["bytes"] == 108894
        offset, whole = 0, ""
        while offset < end.data["bytes"]:
            piece = await use("process", action="output", id=job, offset=offset)
            whole += piece.data["output"]
            assert piece.data["next"] > offset
            offset = piece.data["next"]
        assert whole == "".join(f"{n}\n" for n in range(1, 20001))


async def test_writing_to_a_program(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        job = await started(use, "cat; echo end")
        found = await use("process", action="write", id=job, input="hello\n")
        assert found.data["output"] == "hello\n" and found.data["status"] == "running"
        await use("process", action="write", id=job, input="last", eof=True)
        done = await use("process", action="wait", id=job, timeout=10)
        assert done.data["output"] == "hello\nlastend\n"
        late = await use("process", action="write", id=job, input="x")
        assert late.data["error"]["code"] == "job_finished"


async def test_driving_a_terminal(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        job = await started(use, "python3 -q", pty=True)
        found = await use("process", action="write", id=job, input="6 * 7\n", timeout=2)
        assert "42" in found.data["output"]
        await use("process", action="write", id=job, input="import time; time.sleep(60)\n")
        found = await use("process", action="write", id=job, keys=["C-c"])
        assert "KeyboardInterrupt" in found.data["output"]
        await use("process", action="write", id=job, input="exit(4)", keys=["Enter"])
        assert (await use("process", action="wait", id=job, timeout=10)).data["exit_code"] == 4


async def test_signals_and_strays(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        job = await started(use, "trap 'echo got; exit 9' USR1; while :; do sleep 0.05; done")
        await use("process", action="kill", id=job, signal="USR1")
        assert (await use("process", action="wait", id=job, timeout=10)).data["exit_code"] == 9
        wrong = await use("process", action="kill", id=await started(use, "sleep 4712.2"), signal="NOPE")
        assert wrong.failed and "NOPE" in wrong.text
        await use("terminal", command="sleep 4712.3 &")
        jobs = (await use("process", action="list")).data["jobs"]
        [stray] = [one for one in jobs if one["kind"] == "stray"]
        told = await use("process", action="output", id=stray["id"])
        assert told.failed and "not a job" in told.text
        await use("process", action="kill", id=stray["id"])
        assert not running("4712.3")


async def test_what_cannot_be(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        for arguments, word in (
            ({"action": "output"}, "needs an id"),
            ({"action": "output", "id": "99"}, "action=list"),
            ({"action": "jump"}, "jump"),
            ({"action": "write", "id": await started(use, "sleep 4712.4")}, "needs input"),
            ({"action": "output", "id": "1", "offset": -1}, "offset"),
        ):
            found = await use("process", **arguments)
            assert found.failed and word in found.text, found.text


async def test_a_long_list_is_bounded(tmp_path: Path) -> None:
    async with tools(tmp_path, {"tool_use.max_output": 4096}) as use:
        for number in range(12):
            await use.box.start(f"true {'x' * 400} {number}")
        found = await use("process", action="list")
        assert "more" in found.text and 2 < len(found.data["jobs"]) < 12


async def test_input_for_a_shell_is_judged(tmp_path: Path) -> None:
    async with tools(
        tmp_path, approval="ask", on_approval=lambda request, decision: request.kind != "input"
    ) as use:
        (use.home / "kept").mkdir()
        job = await started(use, "bash")
        found = await use("process", action="write", id=job, input="rm -rf kept\n")
        assert found.data["status"] == "refused"
        assert (use.home / "kept").exists()
