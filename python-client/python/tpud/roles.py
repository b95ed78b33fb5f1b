"""What AOTAutograd knows about the inputs and outputs of a graph that it has compiled."""

from __future__ import annotations

import dataclasses

import torch
from torch import fx

from tpud import joint


@dataclasses.dataclass(frozen=True)
class Roles:
    """What AOTAutograd knows about a graph's inputs and outputs."""

    phase: str = "inference"
    parameters: frozenset[int] = frozenset()  # inputs that stay on the device between calls
    mutated: tuple[int, ...] = ()  # the first outputs (after tokens) are the new content of these inputs
    aliases: tuple[bool, ...] = ()  # outputs that AOTAutograd regards as aliases
    results: int | None = None  # outputs that the user sees, the mutated ones included; the rest is saved for backward

    tokens: int = 0  # inputs and outputs before all others, which order ops that only have an effect

    @property
    def first_result(self) -> int:
        """The first output that is neither a token nor the new content of an input."""
        return self.tokens + len(self.mutated)

    def of_output(self, index: int) -> tuple[str, int | None]:
        """The role of one output in the graph contract."""
        if self.tokens <= index < self.first_result:
            return "mutation", self.mutated[index - self.tokens]
        return ("saved", None) if self.results is not None and index >= self.results else ("user_output", None)


def roles_of(gm: fx.GraphModule, phase: str) -> Roles:
    """The roles of the graph that is being compiled, from the tracing context."""
    from torch._functorch._aot_autograd.schemas import OutputType

    if phase == "backward":
        inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
        return Roles(phase, frozenset(index for index, node in enumerate(inputs) if joint.PARAMETER in node.meta))
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return Roles(phase)
    # Nothing is donated, so a backward may keep the graph.
    metadata.bw_donated_idxs = []
    # torch counts tokens in the indices of static inputs, and nowhere else.
    tokens = len(metadata.tokens)
    mutated = tuple(tokens + index for index in metadata.mutated_inp_runtime_indices)
    owned = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
    aliases = [False] * (tokens + len(mutated)) + [info.output_type not in owned for info in metadata.output_info]
    results = len(aliases) + metadata.num_intermediate_bases
    # What the graph itself changes is different at the next call, so it is not worth keeping.
    kept = frozenset(metadata.static_input_indices or ()) - frozenset(mutated)
    return Roles(phase, kept, mutated, tuple(aliases), results, tokens)
