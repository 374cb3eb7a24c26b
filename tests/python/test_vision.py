"""Picture datasets, transforms and models."""

import gzip
import struct

import numpy as np
import pytest

import rgrad as torch
from rgrad.utils.data import DataLoader
from rgrad.vision import transforms
from rgrad.vision.datasets import MNIST, FashionMNIST
from rgrad.vision.models import ResNet18_Weights, resnet18, resnet34

NAMES = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
]


def idx(array):
    return struct.pack(f">2xBB{array.ndim}I", 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def files(tmp_path):
    """A root with four small files, the last two gzipped."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    pictures = np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    labels = np.array([3, 1, 4, 1, 5, 9], dtype=np.uint8)
    for name, array in zip(NAMES, [pictures, labels, pictures[:2], labels[:2]], strict=True):
        if name.startswith("t10k"):
            (raw / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (raw / name).write_bytes(idx(array))
    return tmp_path, pictures, labels


# Datasets


def test_files_are_read_plain_and_gzipped(files):
    root, pictures, labels = files
    train, test = MNIST(root), MNIST(str(root), train=False)
    assert (len(train), len(test)) == (6, 2)
    np.testing.assert_array_equal(train.data.numpy(), pictures)
    assert train.targets.tolist() == labels.tolist() and train.targets.dtype == torch.int64
    picture, label = MNIST(root, transform=transforms.ToTensor(), target_transform=lambda y: -y)[2]
    np.testing.assert_allclose(picture.numpy()[0], pictures[2] / 255, rtol=1e-6)
    assert label == -4


def test_samples_are_pillow_images_where_pillow_is(files):
    image = pytest.importorskip("PIL.Image")
    picture, label = MNIST(files[0])[0]
    assert isinstance(picture, image.Image) and picture.mode == "L" and label == 3
    np.testing.assert_array_equal(np.asarray(picture), files[1][0])


@pytest.mark.parametrize("normalize", [False, True])
def test_whole_batches_equal_single_samples(files, normalize):
    steps = [transforms.ToTensor(), *([transforms.Normalize((0.5,), (0.25,))] if normalize else [])]
    fast = MNIST(files[0], transform=transforms.Compose(steps))
    slow = MNIST(files[0], transform=lambda picture: transforms.Compose(steps)(picture))
    for got, expected in zip(DataLoader(fast, batch_size=4), DataLoader(slow, batch_size=4), strict=True):
        assert got[0].shape[1:] == (1, 28, 28)
        assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])


def test_a_missing_dataset_says_what_to_do(tmp_path):
    with pytest.raises(RuntimeError, match="Dataset not found. You can use download=True to download it"):
        MNIST(tmp_path)


def test_a_download_that_fails_or_is_wrong_leaves_nothing(tmp_path, monkeypatch):
    wrong = tmp_path / "mirror"
    wrong.mkdir()
    (wrong / f"{NAMES[0]}.gz").write_bytes(b"not the file")
    monkeypatch.setattr(MNIST, "mirrors", [f"{wrong.as_uri()}/", f"{(tmp_path / 'absent').as_uri()}/"])
    with pytest.raises(RuntimeError, match="Error downloading train-images-idx3-ubyte.gz") as caught:
        MNIST(tmp_path / "root", download=True)
    assert "does not have the checksum" in str(caught.value)
    assert list((tmp_path / "root" / "MNIST" / "raw").iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "is truncated: its header promises 4704 bytes"),
        (lambda data: data + b"x", "is too long"),
        (lambda data: data[:9], "truncated within its header"),
        (lambda data: b"\1" + data[1:], "not an IDX file"),
        (lambda data: data[:2] + b"\x0d" + data[3:], "should hold unsigned bytes"),
        (lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:], "too large to be true"),
        (lambda data: b"", "not an IDX file"),
    ],
)
def test_a_corrupt_idx_file_is_refused(files, damage, message):
    path = files[0] / "MNIST" / "raw" / NAMES[0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RuntimeError, match=message):
        MNIST(files[0])


def test_a_corrupt_gzip_file_is_refused(files):
    path = files[0] / "MNIST" / "raw" / f"{NAMES[2]}.gz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RuntimeError, match="is corrupt"):
        MNIST(files[0], train=False)


def test_labels_must_be_as_many_as_pictures(files):
    (files[0] / "MNIST" / "raw" / NAMES[1]).write_bytes(idx(np.zeros(5, np.uint8)))
    with pytest.raises(RuntimeError, match="holds 6 pictures, but .* holds 5 labels"):
        MNIST(files[0])


def test_the_subset_is_balanced():
    for train, each in ((True, 200), (False, 50)):
        subset = FashionMNIST.subset(train=train)
        assert subset.data.shape == (10 * each, 28, 28)
        assert np.bincount(subset.targets.numpy()).tolist() == [each] * 10
    assert subset.classes[subset[0][1]] == "Ankle boot"
    assert "Number of datapoints: 500" in repr(subset)


# Transforms


def test_arrays_become_tensors_with_channels_first():
    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    tensor = transforms.ToTensor()(picture)
    assert tensor.shape == (3, 2, 4) and tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor.numpy(), picture.transpose(2, 0, 1) / 255, rtol=1e-6)
    assert transforms.ToTensor()(np.ones((2, 3), np.float32)).shape == (1, 2, 3)
    with pytest.raises(TypeError, match="pic should be PIL Image or ndarray"):
        transforms.ToTensor()([1, 2])


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "F", "I", "1"])
def test_pillow_images_become_tensors(mode):
    image = pytest.importorskip("PIL.Image")
    picture = image.fromarray(np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4).convert(mode)
    values = np.asarray(picture)
    if mode == "1":
        values = values.astype(np.uint8) * 255
    expected = np.atleast_3d(values).transpose(2, 0, 1) / (255 if values.dtype == np.uint8 else 1)
    np.testing.assert_allclose(transforms.ToTensor()(picture).numpy(), expected, rtol=1e-6)


def test_normalizing_is_per_channel():
    result = transforms.Normalize([0.5, 1.0], [0.5, 2.0])(torch.ones(2, 1, 1))
    assert result.flatten().tolist() == [1, 0]
    with pytest.raises(TypeError, match="Input tensor should be a float tensor"):
        transforms.Normalize([0.5], [0.5])(torch.ones(1, 1, 1, dtype=torch.uint8))
    with pytest.raises(ValueError, match="std evaluated to zero"):
        transforms.Normalize([0.5], [0.0])(torch.ones(1, 1, 1))


def test_crops_and_flips_of_tensors():
    picture = torch.arange(12).view(1, 3, 4)
    assert transforms.CenterCrop((1, 2))(picture).tolist() == [[[5, 6]]]
    assert transforms.CenterCrop(5)(picture).shape == (1, 5, 5)
    assert transforms.RandomHorizontalFlip(1.0)(picture)[0, 0].tolist() == [3, 2, 1, 0]
    assert transforms.RandomHorizontalFlip(0.0)(picture) is picture
    torch.manual_seed(0)
    crops = {tuple(transforms.RandomCrop(2, padding=1)(picture).flatten().tolist()) for _ in range(60)}
    assert len(crops) > 5
    assert transforms.RandomResizedCrop(7)(picture.float()).shape == (1, 7, 7)
    with pytest.raises(ValueError, match=r"Required crop size \(9, 9\) is larger than input image size \(3, 4\)"):
        transforms.RandomCrop(9)(picture)


def test_resizing_keeps_constants_and_halves_by_averaging():
    assert transforms.Resize(5)(torch.full((1, 8, 10), 3.0)).shape == (1, 5, 6)
    np.testing.assert_allclose(transforms.Resize((3, 9))(torch.full((1, 8, 10), 3.0)).numpy(), 3.0, rtol=1e-6)
    ramp = torch.arange(8.0).view(1, 1, 8)
    doubled = transforms.Resize((1, 16))(ramp).flatten()
    np.testing.assert_allclose(doubled.numpy()[1:-1], np.arange(0.25, 7.0, 0.5), rtol=1e-6)
    assert transforms.Resize((1, 4), interpolation=transforms.InterpolationMode.NEAREST)(ramp).tolist() == [
        [[0, 2, 4, 6]]
    ]


def test_tensors_are_resized_as_pillow_resizes_images():
    image = pytest.importorskip("PIL.Image")
    values = np.random.default_rng(0).random((23, 31)).astype(np.float32)
    for size in ((9, 12), (40, 37)):
        for mode in (transforms.InterpolationMode.BILINEAR, transforms.InterpolationMode.BICUBIC):
            resize = transforms.Resize(size, interpolation=mode)
            expected = np.asarray(resize(image.fromarray(values)))
            np.testing.assert_allclose(resize(torch.from_numpy(values)[None]).numpy()[0], expected, atol=1e-5)


def test_dtypes_are_converted_with_their_range():
    picture = torch.tensor([[[0, 128, 255]]], dtype=torch.uint8)
    as_float = transforms.ConvertImageDtype(torch.float32)(picture)
    np.testing.assert_allclose(as_float.numpy()[0, 0], [0, 128 / 255, 1], rtol=1e-6)
    assert transforms.ConvertImageDtype(torch.uint8)(as_float).tolist() == picture.tolist()


def test_transforms_print_as_torchvision_prints_them():
    assert repr(transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])) == (
        "Compose(\n    ToTensor()\n    Normalize(mean=(0.5,), std=(0.5,))\n)"
    )
    assert repr(transforms.Resize(32)) == "Resize(size=32, interpolation=bilinear, max_size=None, antialias=True)"


# Models


def test_resnets_have_torchvisions_shapes():
    net = resnet18()
    state = net.state_dict()
    assert len(state) == 122
    assert sum(parameter.numel() for parameter in net.parameters()) == 11689512
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert state["layer4.1.bn2.num_batches_tracked"].shape == ()
    assert sum(parameter.numel() for parameter in resnet34().parameters()) == 21797672


def test_a_resnet_computes_and_differentiates():
    net = resnet18(num_classes=7)
    result = net(torch.rand(2, 3, 32, 32))
    assert result.shape == (2, 7)
    result.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_weights_come_from_a_local_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RGRAD_WEIGHTS_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "none"))
    assert ResNet18_Weights.DEFAULT is ResNet18_Weights.IMAGENET1K_V1
    with pytest.raises(FileNotFoundError, match="put resnet18-f37072fd.pth from https://download.pytorch.org"):
        resnet18(weights="DEFAULT")
    net = resnet18()
    torch.save(net.state_dict(), tmp_path / "resnet18-f37072fd.pth")
    same = resnet18(weights=ResNet18_Weights.DEFAULT)
    assert torch.equal(same.fc.weight, net.fc.weight)
    with pytest.raises(ValueError, match="The parameter 'num_classes' expected value 1000 but got 5 instead."):
        resnet18(weights=ResNet18_Weights.DEFAULT, num_classes=5)


def test_the_weights_transform_prepares_a_picture():
    image = pytest.importorskip("PIL.Image")
    picture = image.fromarray(np.zeros((300, 400, 3), np.uint8))
    prepared = ResNet18_Weights.DEFAULT.transforms()(picture)
    assert prepared.shape == (3, 224, 224)
    np.testing.assert_allclose(
        prepared[:, 0, 0].numpy(), -np.array([0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225], rtol=1e-5
    )


def test_networks_of_bottlenecks_have_torchvisions_parameters():
    from rgrad.vision import models

    net = models.resnet50().eval()
    assert sum(p.numel() for p in net.parameters()) == models.ResNet50_Weights.DEFAULT.meta["num_params"]
    assert net.layer1[0].downsample is not None and net.layer4[2].conv3.weight.shape == (2048, 512, 1, 1)
    assert models.ResNet50_Weights.DEFAULT.transforms().resize_size == [232]
    small = models.ResNet(models.Bottleneck, [1, 1, 1, 1], 5, True, 2, 32, [False, True, True])
    assert small(torch.randn(2, 3, 64, 64)).shape == (2, 5) and small.layer1[0].bn3.weight.abs().sum() == 0
    assert small.layer4[0].conv2.stride == (1, 1) and small.layer4[0].conv2.dilation == (2, 2)


def test_vgg_has_torchvisions_layers():
    from rgrad.vision.models import vgg

    for letter, convolutions in (("A", 8), ("B", 10), ("D", 13), ("E", 16)):
        for batch_norm in (False, True):
            features = vgg.make_layers(vgg.cfgs[letter], batch_norm)
            kinds = [type(m).__name__ for m in features]
            assert kinds.count("Conv2d") == convolutions and kinds.count("MaxPool2d") == 5
            assert kinds.count("BatchNorm2d") == convolutions * batch_norm
    net = vgg.VGG(vgg.make_layers(vgg.cfgs["A"]), num_classes=3, init_weights=False)
    assert net(torch.randn(1, 3, 32, 32)).shape == (1, 3)
    assert list(net.state_dict())[-2:] == ["classifier.6.weight", "classifier.6.bias"]
