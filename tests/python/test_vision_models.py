"""Networks have torchvision's keys, and compute what its do."""

import pytest
import vision_cases
import vision_cases_models

import rgrad as torch

CASES = vision_cases_models.cases(torch, torch.vision)
CASES.pop("facts")


@pytest.mark.parametrize("name", CASES)
def test_networks_are_torchvisions(name):
    ours, theirs = vision_cases.outcome(CASES[name]), vision_cases.recorded("models")[name]
    assert "error" not in ours, CASES[name]()
    # Training begins with other random numbers of the same distribution.
    assert vision_cases.equal(ours, theirs, 0.06 if name.startswith("start") else 1e-4)


def test_the_registry_finds_networks_and_weights():
    models = torch.vision.models
    assert models.list_models(include="resnet*", exclude=["*1*"]) == ["resnet34", "resnet50"]
    assert {"vit_b_16", "swin_v2_t"} <= set(models.list_models(module=models))
    assert models.get_weight("ResNet50_Weights.IMAGENET1K_V2") is models.ResNet50_Weights.DEFAULT
    assert models.get_model_weights("VGG16_bn") is models.VGG16_BN_Weights
    assert models.get_model_weights(models.alexnet) is models.AlexNet_Weights
    for wrong in ("nothing", "Nothing.DEFAULT"):
        with pytest.raises(ValueError, match="Invalid weight name|couldn't be retrieved"):
            models.get_weight(wrong)
    with pytest.raises(ValueError, match="Unknown model nothing"):
        models.get_model("nothing")


def test_published_weights_have_the_facts_of_torchvision():
    models = torch.vision.models
    facts = {}
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            facts[str(weights)] = vision_cases_models.facts(weights)
    recorded = vision_cases.recorded("models")["facts"][0]
    assert len(facts) > 100 and {name: recorded[name] for name in facts} == facts


def test_old_arguments_for_weights_are_warned_of():
    with pytest.warns(UserWarning, match="'pretrained' is deprecated"):
        net = torch.vision.models.squeezenet1_1(pretrained=False, num_classes=2)
    assert net.num_classes == 2
    with pytest.warns(UserWarning, match="Using 'weights' as positional"):
        torch.vision.models.squeezenet1_1(None)


def test_old_keys_of_published_files_are_renamed(tmp_path):
    models = torch.vision.models
    net = models.vit_b_32(image_size=32, num_classes=3)
    state = net.state_dict()
    old = {k.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): v for k, v in state.items()}
    assert old.keys() != state.keys() and not any(net.load_state_dict(old))
    dense = models.densenet121()
    numbered = {k.replace("norm1.", "norm.1.").replace("conv2.", "conv.2."): v for k, v in dense.state_dict().items()}
    torch.save(numbered, tmp_path / "densenet121-a639ec97.pth")
    same = models.densenet121(weights="DEFAULT", weights_dir=tmp_path)
    assert torch.equal(same.classifier.weight, dense.classifier.weight)


def test_layers_of_a_network_are_returned_by_name():
    from rgrad.vision.models._utils import IntermediateLayerGetter

    net = torch.vision.models.squeezenet1_1(num_classes=2).features
    body = IntermediateLayerGetter(net, {"1": "first", "3": "second"})
    assert list(body.keys()) == ["0", "1", "2", "3"]
    assert [tuple(v.shape) for v in body(torch.zeros(1, 3, 32, 32)).values()] == [(1, 64, 15, 15), (1, 128, 7, 7)]
    with pytest.raises(ValueError, match="return_layers are not present in model"):
        IntermediateLayerGetter(net, {"no": "first"})
