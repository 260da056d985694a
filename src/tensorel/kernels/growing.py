"""How buffers grow inside kernels, and what LLVM may know of them."""

from __future__ import annotations

import sys

from tensorel.recycling import LARGE_PAGE, MAPPED

_GROW_TEXT = """
define internal i32 @tr.grow(ptr %state, i64 %need, ptr %control) cold noinline nounwind {
entry:
  %data = load ptr, ptr %state
  %place = getelementptr inbounds i64, ptr %state, i64 2
  %capacity = load i64, ptr %place
  %sized = getelementptr inbounds i64, ptr %state, i64 3
  %item = load i64, ptr %sized
  %half = lshr i64 %capacity, 1
  %more = add i64 %capacity, %half
  %some = call i64 @llvm.umax.i64(i64 %more, i64 1024)
  %new = call i64 @llvm.umax.i64(i64 %some, i64 %need)
  %absurd = icmp ugt i64 %new, 288230376151711744
  br i1 %absurd, label %refuse, label %charge
charge:
  %added = sub i64 %new, %capacity
  %bytes = mul i64 %added, %item
  %budget = getelementptr inbounds i64, ptr %control, i64 1
  %left = atomicrmw sub ptr %budget, i64 %bytes monotonic
  %enough = icmp sge i64 %left, %bytes
  br i1 %enough, label %allocate, label %return
return:
  %a = atomicrmw add ptr %budget, i64 %bytes monotonic
  br label %refuse
refuse:
  ret i32 3
allocate:
  %size = mul i64 %new, %item
  %old = mul i64 %capacity, %item
  %ends = add i64 %size, PAGE
  %span = and i64 %ends, -LARGE
  %ended = add i64 %old, PAGE
  %spanned = and i64 %ended, -LARGE
  %mapped = icmp uge i64 %old, MAPPED
  br i1 %mapped, label %remap, label %plain
remap:
  %moved = call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %data, i64 %spanned, i64 %span, i32 1)
  br label %check
plain:
  %large = icmp uge i64 %size, MAPPED
  br i1 %large, label %map, label %heap
map:
  %fresh = call ptr @mmap(ptr null, i64 %span, i32 3, i32 34, i32 -1, i64 0)
  %bad = icmp eq ptr %fresh, inttoptr (i64 -1 to ptr)
  br i1 %bad, label %fail, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %fresh, ptr %data, i64 %old, i1 false)
  call void @free(ptr %data)
  br label %check
heap:
  %again = call ptr @realloc(ptr %data, i64 %size)
  %none = icmp eq ptr %again, null
  br i1 %none, label %fail, label %done
check:
  %big = phi ptr [ %moved, %remap ], [ %fresh, %copy ]
  %lost = icmp eq ptr %big, inttoptr (i64 -1 to ptr)
  br i1 %lost, label %fail, label %advise
advise:
  %ignored = call i32 @madvise(ptr %big, i64 %span, i32 14)
  br label %done
fail:
  %b = atomicrmw add ptr %budget, i64 %bytes monotonic
  ret i32 2
done:
  %got = phi ptr [ %again, %heap ], [ %big, %advise ]
  store ptr %got, ptr %state
  store i64 %new, ptr %place
  ret i32 0
}"""

_MREMAP = "call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %data, i64 %spanned, i64 %span, i32 1)"
GROW = _GROW_TEXT.replace("MAPPED", str(MAPPED)).replace("LARGE", str(LARGE_PAGE)).replace(
    "PAGE", str(LARGE_PAGE - 1))
if sys.platform != "linux":  # nothing is mapped there, and there is no mremap to link
    GROW = GROW.replace(_MREMAP, "call ptr @realloc(ptr %data, i64 %size)")


def scopes(buffers: int) -> list[str]:
    """Metadata by which LLVM knows that no two buffers overlap, nor a buffer and an array: copies
    of rows become block copies. !99 names the scopes of all buffers, !100 + 2k that of buffer k,
    !101 + 2k those of all others."""
    if not buffers:
        return []
    lines = ["!10 = distinct !{!10}"]
    lines += [f"!{11 + k} = distinct !{{!{11 + k}, !10}}" for k in range(buffers)]
    lines.append(f"!99 = !{{{', '.join(f'!{11 + k}' for k in range(buffers))}}}")
    for k in range(buffers):
        others = ", ".join(f"!{11 + n}" for n in range(buffers) if n != k)
        lines += [f"!{100 + 2 * k} = !{{!{11 + k}}}", f"!{101 + 2 * k} = !{{{others}}}"]
    return lines
