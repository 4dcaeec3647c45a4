"""What models add to the vectors of tokens: affixes of the labeller, segments of the classifier."""

import pytest
import torch
from support import must_fail, not_none
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.models.classifier import Classifier, ClassifierConfig
from limelight.models.labeller import Labeller, LabellerConfig
from limelight.models.sizes import Sizes

B, T, V, IDS, A, L = 3, 7, 11, 5, 17, 13
LENGTHS = torch.tensor([7, 2, 5])
AFFIXES = Sizes(outputs=L, vocabulary=V, ngrams=V + A, longest=T)
PAIRS = Sizes(outputs=L, vocabulary=V, separator=V - 1, longest=T)


def tagged_inputs() -> Tensor:
    """Tokens with four affixes each; id 0 is none."""
    affixes = torch.randint(A, (B, T, IDS - 1)) + V
    affixes[torch.rand(affixes.shape) < 0.3] = 0
    return torch.cat((torch.randint(V, (B, T, 1)), affixes), 2)


def labeller(unknown: float = 0.0) -> Labeller:
    torch.manual_seed(1)
    return LabellerConfig(width=22, heads=2, hidden=19, norm="pre", unknown=unknown).build(AFFIXES)


def classifier(unknown: float = 0.0) -> Classifier:
    torch.manual_seed(1)
    return ClassifierConfig(width=22, heads=2, hidden=19, norm="pre", unknown=unknown).build(PAIRS)


@torch.no_grad()
def test_padding_has_no_effect_on_a_labeller_with_affixes() -> None:
    model, inputs = labeller().eval(), tagged_inputs()
    whole = model(inputs, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(inputs[row : row + 1, :length])[0]
        torch.testing.assert_close(whole[row, :length], alone, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_each_affix_adds_its_vector_and_none_adds_nothing() -> None:
    model = labeller()
    assert model.affixes is not None
    assert model.affixes.vectors.weight.shape == (A + 1, 22)
    vectors = model.affixes.vectors.weight
    ids = torch.tensor([[[V, V + A - 1, 0, V + 3]]])
    torch.testing.assert_close(model.affixes(ids)[0, 0], vectors[1] + vectors[A] + vectors[4])
    assert not model.affixes(torch.zeros(1, 1, 4, dtype=torch.long)).any()


def test_the_vectors_of_tokens_keep_the_names_that_other_models_have() -> None:
    """Weights can be taken over from a model without affixes or segments: those are additional."""
    sizes = Sizes(outputs=L, vocabulary=V, longest=T)
    plain = LabellerConfig(width=22, heads=2, hidden=19, norm="pre").build(sizes).state_dict()
    assert labeller().state_dict().keys() - plain.keys() == {"affixes.vectors.weight"}
    one = ClassifierConfig(width=22, heads=2, hidden=19, norm="pre").build(sizes).state_dict()
    assert classifier().state_dict().keys() - one.keys() == {"encoder.segments.vectors.weight"}


def segments(model: Classifier, inputs: list[int]) -> list[int]:
    embedding = not_none(model.encoder.segments)
    vectors = embedding(torch.tensor([inputs]))[0]
    return [int((vector - embedding.vectors.weight).abs().sum(1).argmin()) for vector in vectors]


@torch.no_grad()
def test_tokens_after_the_separator_belong_to_the_second_text() -> None:
    model = classifier()
    assert segments(model, [1, 2, V - 1, 3, 0, 2]) == [0, 0, 0, 1, 1, 1]
    assert segments(model, [V - 1, 1, V - 1, 3]) == [0, 1, 1, 1]
    assert segments(model, [1, 2]) == [0, 0]


def check_order(model: nn.Module) -> None:
    """The same tokens with the separator elsewhere, or the texts exchanged, are another input."""
    first, second = (torch.tensor([[1, 2, V - 1, 3]]), torch.tensor([[3, V - 1, 1, 2]]))
    assert not torch.allclose(model(first), model(second), atol=1e-3)


@torch.no_grad()
def test_segments_distinguish_the_texts_even_without_positions() -> None:
    torch.manual_seed(1)
    config = ClassifierConfig(width=22, heads=2, hidden=19, positions="none")
    check_order(config.build(PAIRS).eval())
    must_fail(check_order, config.build(Sizes(outputs=L, vocabulary=V, longest=T)).eval())


def seen_by(model: nn.Module, embedding: nn.Module, inputs: Tensor) -> Tensor:
    """The ids that reach an embedding in training."""
    found = list[Tensor]()
    handle = embedding.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    model.train()(inputs)
    handle.remove()
    return found[0]


def test_unknown_drops_tokens_and_affixes_but_not_the_separator() -> None:
    tagger, inputs = labeller(unknown=0.5), tagged_inputs().repeat(31, 1, 1)
    dropped = seen_by(tagger, tagger.encoder.input, inputs) != inputs[..., 0]
    assert 0.4 < float(dropped[inputs[..., 0] != 0].float().mean()) < 0.6
    pairs = torch.randint(1, V - 1, (101, T))
    pairs[:, 3] = V - 1
    model = classifier(unknown=0.5)
    found = seen_by(model, model.encoder.input, pairs)
    assert bool((found[:, 3] == V - 1).all())
    assert 0.4 < float((found[:, :3] == 0).float().mean()) < 0.6


def test_vectors_cannot_be_unknown() -> None:
    with pytest.raises(WrongInput, match=r"model\.unknown is 0\.5; allowed: 0 if the inputs are vectors"):
        LabellerConfig(unknown=0.5).build(Sizes(outputs=L, features=3, longest=T))
