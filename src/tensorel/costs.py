"""What work costs: the one record that the planner's arithmetic reads."""

from __future__ import annotations

from tensorel.records import dataclass


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs in steps of a plain loop over stored entries, about a nanosecond each. Ratios between
    them decide plans; ``tr.calibrate()`` measures them on a machine.

    Compared by identity: a process has one or two of these, and every plan's key holds one."""

    # -- loops: each iteration
    enter: float = 2.0  # starting a loop once more
    step: float = 1.0  # one entry of a sparse level that leads alone
    dense_step: float = 0.7  # one index of a dense loop that is not vectorized
    vector_step: float = 0.15  # one element of a vectorized loop
    merge_step: float = 2.5  # one entry of several lists walked together
    search_step: float = 1.5  # one halving of a binary search or a gallop
    find: float = 0.3  # computing the place in a dense level inside the loops
    lookup: float = 2.0  # finding an entry by a table
    gallop: float = 8.0  # lists so many times longer are searched, not walked

    # -- joins of factors, before their loops are known
    join_lookup: float = 1.0  # asking one more sparse factor
    join_find: float = 0.3  # asking one more dense factor
    join_scatter: float = 0.5  # an entry whose sum is not finished before the next begins
    write_dense: float = 1.0  # a cell of a dense intermediate: written and read again
    write_sparse: float = 6.0  # an entry of a sparse intermediate

    # -- results: each cell or entry
    dense_write: float = 0.3  # initializing a cell of a dense result
    dense_scatter: float = 0.3  # adding to a cell anywhere in a dense result
    append: float = 3.0  # an entry appended in order
    reuse: float = 0.5  # a value beside index arrays that exist, or in a dense tail
    bucket: float = 6.0  # an entry counted, placed and written under its second index
    workspace: float = 8.0  # an entry collected from a dense row
    workspace_add: float = 2.0  # one addition into a dense row
    workspace_room: float = 0.5  # a cell of the dense row itself
    list_sort: float = 60.0  # an entry of a list that is sorted at the end
    list_start: float = 5000.0  # sorting any list at all

    # -- conversions
    convert: float = 12.0  # an entry stored again in another format
    convert_start: float = 2000.0  # any conversion

    # -- whole steps
    blas_speed: float = 16.0  # multiply-adds of a dense product per step
    call: float = 20000.0  # starting one more kernel

    # -- when to choose what costs alone do not decide
    dense_vector: float = 0.25  # a sum over sparse operands is stored dense above this density
    dense_matrix: float = 0.5  # the same for results of two and more axes
    dense_wanted: float = 0.1  # written dense on the way to a sparse format that was asked for
    turn: float = 8.0  # a matrix is turned if the sums read it so many times over
    expand: float = 4.0  # sums of products may cancel: they must be so many times cheaper
    fetch_bytes: float = 4e6  # rows of larger operands are fetched ahead,
    fetch_entries: float = 4.0  # if they have more entries than this
