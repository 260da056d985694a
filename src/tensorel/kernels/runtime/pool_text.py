"""The machine code of the native pool's helpers and callers, as LLVM text."""

from __future__ import annotations

import platform

from tensorel.kernels.runtime.cores import can_place

#: Ticks of the processor's clock (0.3 to 0.5 ns): how long a helper looks for the next job before
#: it sleeps, and how long the caller looks for the end of the last range.
HELPER_SPIN = 600_000
CALLER_SPIN = 60_000
SLOT_BYTES = 256  # of a slot, and of the job before the first
_HAS_CLOCK = platform.machine() in ("x86_64", "AMD64")

# Words of a job: 0 kind (1), 1 function, 2 ranges, 3 their number, 4 control block, 5 arguments,
# 6 words from the arguments of one worker to the next, 7 helpers; 8 next range, 9 status, 10
# whether all shall stop for a moment; 11 bytes of zeros that a worker begins with, 12 in which of
# its arrays, 13 where it says that it has begun (a job that stops for a moment goes on later);
# 16 helpers inside, with BLOCKED added once the caller sleeps; 24 semaphore of the caller.
# Words of a slot: 0 kind (0), 1 job or 0, 2 whether asleep, 3 number of the worker, 4 the system's
# number of the thread, 5 one more than the core that it keeps off, 8 semaphore, 16 cores.
_TEXT = """
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
declare ptr @memset(ptr, i32, i64)
{declarations}

define internal void @work(ptr %job, i64 %worker, i64 %since) noinline {{
  %p1 = getelementptr i64, ptr %job, i64 1
  %function = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %job, i64 2
  %ranges = load ptr, ptr %p2
  %p3 = getelementptr i64, ptr %job, i64 3
  %count = load i64, ptr %p3
  %p4 = getelementptr i64, ptr %job, i64 4
  %watch = load ptr, ptr %p4
  %p5 = getelementptr i64, ptr %job, i64 5
  %arguments = load ptr, ptr %p5
  %p6 = getelementptr i64, ptr %job, i64 6
  %stride = load i64, ptr %p6
  %next = getelementptr i64, ptr %job, i64 8
  %status = getelementptr i64, ptr %job, i64 9
  %halt = getelementptr i64, ptr %job, i64 10
  %skipped = mul i64 %stride, %worker
  %own = getelementptr i64, ptr %arguments, i64 %skipped
  %arrays = load ptr, ptr %own
  %own1 = getelementptr i64, ptr %own, i64 1
  %buffers = load ptr, ptr %own1
  %own2 = getelementptr i64, ptr %own, i64 2
  %scalars = load ptr, ptr %own2
  %p11 = getelementptr i64, ptr %job, i64 11
  %cleared = load i64, ptr %p11
  %p13 = getelementptr i64, ptr %job, i64 13
  %marks = load ptr, ptr %p13
  %mark = getelementptr i64, ptr %marks, i64 %worker
  br label %take
take:
  %halted = load atomic i64, ptr %halt acquire, align 8
  %on = icmp eq i64 %halted, 0
  br i1 %on, label %claim, label %out
claim:
  %k = atomicrmw add ptr %next, i64 1 acq_rel
  %left = icmp slt i64 %k, %count
  br i1 %left, label %look, label %out
look:
  %failed = load atomic i64, ptr %status acquire, align 8
  %fine = icmp eq i64 %failed, 0
  %asked = icmp ne i64 %cleared, 0
  br i1 %fine, label %ready, label %out
ready:
  br i1 %asked, label %check, label %go
check:
  %begun = load i64, ptr %mark
  %first = icmp eq i64 %begun, 0
  br i1 %first, label %clear, label %go
clear:
  %p12 = getelementptr i64, ptr %job, i64 12
  %place = load i64, ptr %p12
  %entry = getelementptr ptr, ptr %arrays, i64 %place
  %cells = load ptr, ptr %entry
  %zeros = call ptr @memset(ptr %cells, i32 0, i64 %cleared)
  store i64 1, ptr %mark
  br label %go
go:
  %twice = shl i64 %k, 1
  %range = getelementptr i64, ptr %ranges, i64 %twice
  %lo = load i64, ptr %range
  %end = getelementptr i64, ptr %range, i64 1
  %hi = load i64, ptr %end
  %code = call i32 %function(ptr %arrays, ptr %buffers, ptr %scalars, i64 %lo, i64 %hi, ptr %watch)
  %done = icmp eq i32 %code, 0
  br i1 %done, label %passed, label %fail
passed:
  %called = icmp eq i64 %worker, 0
  %now = {clock}
  %spent = sub i64 %now, %since
  %long = icmp sge i64 %spent, {turn}
  %due = and i1 %called, %long
  br i1 %due, label %pause, label %take
pause:
  store atomic i64 1, ptr %halt seq_cst, align 8
  br label %out
fail:
  %wide = zext i32 %code to i64
  %fault = cmpxchg ptr %status, i64 0, i64 %wide seq_cst seq_cst
  store atomic i64 1, ptr %watch seq_cst, align 8
  br label %out
out:
  ret void
}}

define internal void @serve(ptr %slot) noinline {{
  %job = getelementptr i64, ptr %slot, i64 1
  %asleep = getelementptr i64, ptr %slot, i64 2
  %p3 = getelementptr i64, ptr %slot, i64 3
  %worker = load i64, ptr %p3
  %semaphore = getelementptr i64, ptr %slot, i64 8
  {identify}
  br label %begin
begin:
  %since = {clock}
  br label %spin
spin:
  %seen = load atomic i64, ptr %job acquire, align 8
  %some = icmp ne i64 %seen, 0
  br i1 %some, label %take, label %idle
idle:
  {pause}
  %now = {clock}
  %spent = sub i64 %now, %since
  %enough = icmp sge i64 %spent, {helper_spin}
  br i1 %enough, label %doze, label %spin
doze:
  store atomic i64 1, ptr %asleep seq_cst, align 8
  %again = load atomic i64, ptr %job seq_cst, align 8
  %late = icmp ne i64 %again, 0
  br i1 %late, label %rise, label %sleep
rise:
  %awake = cmpxchg ptr %asleep, i64 1, i64 0 seq_cst seq_cst
  %alone = extractvalue {{ i64, i1 }} %awake, 1
  br i1 %alone, label %take, label %sleep
sleep:
  %interrupted = call i32 @sem_wait(ptr %semaphore)
  %woken = icmp eq i32 %interrupted, 0
  br i1 %woken, label %begin, label %sleep
take:
  %mine = atomicrmw xchg ptr %job, i64 0 seq_cst
  %there = icmp ne i64 %mine, 0
  br i1 %there, label %help, label %begin
help:
  %it = inttoptr i64 %mine to ptr
  call void @work(ptr %it, i64 %worker, i64 0)
  %inside = getelementptr i64, ptr %it, i64 16
  %before = atomicrmw sub ptr %inside, i64 1 seq_cst
  %waited = icmp eq i64 %before, 4294967297
  br i1 %waited, label %wake, label %begin
wake:
  %caller = getelementptr i64, ptr %it, i64 24
  %woke = call i32 @sem_post(ptr %caller)
  br label %begin
}}

{place}

define internal void @run(ptr %job) noinline {{
  %number = ptrtoint ptr %job to i64
  %p7 = getelementptr i64, ptr %job, i64 7
  %helpers = load i64, ptr %p7
  %inside = getelementptr i64, ptr %job, i64 16
  %caller = getelementptr i64, ptr %job, i64 24
  br label %post
post:
  %k = phi i64 [ 0, %0 ], [ %k1, %posted ]
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k, %helpers
  br i1 %more, label %send, label %share
send:
  %at = mul i64 %k1, {slot}
  %slot = getelementptr i8, ptr %job, i64 %at
  %its = getelementptr i64, ptr %slot, i64 1
  %none = atomicrmw xchg ptr %its, i64 %number seq_cst
  %asleep = getelementptr i64, ptr %slot, i64 2
  %state = cmpxchg ptr %asleep, i64 1, i64 0 seq_cst seq_cst
  %slept = extractvalue {{ i64, i1 }} %state, 1
  br i1 %slept, label %wake, label %posted
wake:
  call void @place(ptr %slot)
  %semaphore = getelementptr i64, ptr %slot, i64 8
  %woke = call i32 @sem_post(ptr %semaphore)
  br label %posted
posted:
  br label %post
share:
  %started = {clock}
  call void @work(ptr %job, i64 0, i64 %started)
  br label %recall
recall:
  %r = phi i64 [ 0, %share ], [ %r1, %recalled ]
  %r1 = add i64 %r, 1
  %yet = icmp slt i64 %r, %helpers
  br i1 %yet, label %fetch, label %begin
fetch:
  %rat = mul i64 %r1, {slot}
  %rslot = getelementptr i8, ptr %job, i64 %rat
  %rits = getelementptr i64, ptr %rslot, i64 1
  %back = cmpxchg ptr %rits, i64 %number, i64 0 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %back, 1
  %one = zext i1 %mine to i64
  %fewer = atomicrmw sub ptr %inside, i64 %one seq_cst
  br label %recalled
recalled:
  br label %recall
begin:
  %since = {clock}
  br label %spin
spin:
  %busy = load atomic i64, ptr %inside acquire, align 8
  %over = icmp eq i64 %busy, 0
  br i1 %over, label %out, label %idle
idle:
  {pause}
  %now = {clock}
  %spent = sub i64 %now, %since
  %enough = icmp sge i64 %spent, {caller_spin}
  br i1 %enough, label %block, label %spin
block:
  %left = atomicrmw add ptr %inside, i64 4294967296 seq_cst
  %gone = icmp eq i64 %left, 0
  br i1 %gone, label %out, label %sleep
sleep:
  %interrupted = call i32 @sem_wait(ptr %caller)
  %woken = icmp eq i32 %interrupted, 0
  br i1 %woken, label %out, label %sleep
out:
  ret void
}}

define ptr @kernel(ptr %it) {{
  %kind = load i64, ptr %it
  %is_job = icmp eq i64 %kind, 1
  br i1 %is_job, label %job, label %slot
job:
  call void @run(ptr %it)
  ret ptr null
slot:
  call void @serve(ptr %it)
  ret ptr null
}}
"""


#: As in ``kernels.runtime.cores``: before it is woken a helper is kept off the core of the caller.
_PLACE = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @gettid()

define internal void @place(ptr %slot) noinline {
  %core = call i32 @sched_getcpu()
  %wide = sext i32 %core to i64
  %mark = add i64 %wide, 1
  %p5 = getelementptr i64, ptr %slot, i64 5
  %last = load i64, ptr %p5
  %same = icmp eq i64 %last, %mark
  %far = icmp uge i64 %wide, 1024
  %skip = or i1 %same, %far
  br i1 %skip, label %out, label %ask
ask:
  %cores = getelementptr i64, ptr %slot, i64 16
  %refused = call i32 @sched_getaffinity(i32 0, i64 128, ptr %cores)
  %known = icmp eq i32 %refused, 0
  br i1 %known, label %keep, label %out
keep:
  %k = lshr i64 %wide, 6
  %word = getelementptr i64, ptr %cores, i64 %k
  %bit = and i64 %wide, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %all = load i64, ptr %word
  %left = and i64 %all, %others
  store i64 %left, ptr %word
  %p4 = getelementptr i64, ptr %slot, i64 4
  %thread = load i64, ptr %p4
  %number = trunc i64 %thread to i32
  %failed = call i32 @sched_setaffinity(i32 %number, i64 128, ptr %cores)
  store i64 %mark, ptr %p5
  br label %out
out:
  ret void
}
"""
_IDENTIFY = """%thread = call i32 @gettid()
  %known = sext i32 %thread to i64
  %p4 = getelementptr i64, ptr %slot, i64 4
  store i64 %known, ptr %p4"""
_NOWHERE = "define internal void @place(ptr %slot) noinline {\n  ret void\n}"


def pool_text(turn: int) -> str:
    """The code of helpers and callers, who look for signals after ``turn`` ticks. Where no clock is
    read in a few cycles nobody spins."""
    declarations = "declare i64 @llvm.readcyclecounter()\ndeclare void @llvm.x86.sse2.pause()"
    return _TEXT.format(
        declarations=declarations if _HAS_CLOCK else "", slot=SLOT_BYTES,
        clock="call i64 @llvm.readcyclecounter()" if _HAS_CLOCK else "add i64 0, 0",
        pause="call void @llvm.x86.sse2.pause()" if _HAS_CLOCK else "",
        helper_spin=HELPER_SPIN if _HAS_CLOCK else 0,
        caller_spin=CALLER_SPIN if _HAS_CLOCK else 0, turn=turn,
        place=_PLACE if can_place() else _NOWHERE, identify=_IDENTIFY if can_place() else "")
