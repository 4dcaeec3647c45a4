"""The promise about decoding step by step."""

from limelight.check.harness.subject import Subject
from limelight.check.instruments.causal_behaviour import is_causal, masks_of_caller
from limelight.check.instruments.step_by_step import compare_steps, has_state
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding


def _step_by_step(subject: Subject) -> Finding:
    """One position at a time with the state of the last step, compared with all positions at once."""
    if not has_state(subject):
        return inapplicable("it has no state for decoding step by step")
    state = next(p for p in subject.parameters if subject.roles[p.name] == "state")
    may_be_causal = state.default is state.empty or bool(masks_of_caller(subject)) or is_causal(subject)
    if not may_be_causal and not subject.has_source:
        return inapplicable("it is not causal, so that single positions give another output")
    found = compare_steps(subject)
    if found is None:
        return inapplicable("it returns no state")
    if found.first_difference is None:
        return KEPT
    b, t = found.first_difference
    count = found.at_once.shape[1]
    example = f"{count} positions, one at a time with the state of the last step; sequence {b}, step {t}"
    if found.only_positions_differ:
        return warned(
            example,
            f"the token gets the encoding of position {t}",
            "it gets that of position 0: each step begins to count again",
            "pass the number of earlier positions to the positional encoding",
        )
    return broken(
        example,
        f"the output of all positions at once: {numbers(found.at_once[b, t].flatten()[:3])} …",
        f"{numbers(found.steps[b, t].flatten()[:3])} …",
    )


PROMISES = (
    Promise(
        "incremental",
        "decoding step by step gives the same output as all positions at once",
        _step_by_step,
        "the state must hold the inputs of the attention of each block, not its outputs, and new ones are "
        "appended after the old ones",
    ),
)
