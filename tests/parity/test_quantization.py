"""Weights are quantized to the same bits as by bitsandbytes' CPU backend."""

import subprocess

import bitsandbytes.functional
import numpy
import torch

torch._dynamo.config.disable = True  # or bitsandbytes compiles for each size

TENSORS = 1000
BLOCK, SCALES_BLOCK = 64, 256


def random_tensor(number: int) -> torch.Tensor:
    """Returns a tensor of random size and scale. Some have zeros, blocks of zeros, subnormal
    numbers or infinities."""
    draw = torch.Generator().manual_seed(number)
    integer = lambda most: int(torch.randint(most, (), generator=draw))  # noqa: E731
    numel = 1 + integer([70, 3000, 50_000][number % 3])
    values = torch.randn(numel, generator=draw) * 10.0 ** (integer(14) - 7)
    kind = number % 5
    if kind == 1:
        values[torch.rand(numel, generator=draw) < 0.5] = 0
    if kind == 2:
        values[: numel // 2] = 0
    if kind == 3:
        values *= 1e-39 / values.abs().max()
    if kind == 4 and number % 2 == 0:
        values[integer(numel)] = float("inf")
    return values.to(torch.bfloat16).float() if integer(2) else values


def quantized(program, tensors):
    """Yields for each tensor: codes, scales of scales, mean, scales, and the tensor in fp32 and
    bf16."""
    given = b"".join(numpy.int64(len(values)).tobytes() + values.numpy().tobytes() for values in tensors)
    left = bytearray(subprocess.run(program, input=given, stdout=subprocess.PIPE, check=True).stdout)
    left = memoryview(left)
    for values in tensors:
        def take(count, dtype):
            nonlocal left
            size = count * dtype.itemsize
            taken, left = torch.frombuffer(left[:size], dtype=dtype) if count else None, left[size:]
            return taken
        numel = len(values)
        blocks = -(-numel // BLOCK)
        scales_of_scales = -(-blocks // SCALES_BLOCK)
        size = -(-numel // 2)
        parts = [take(size, torch.uint8)]
        take(-size % 4, torch.uint8)
        parts += [take(scales_of_scales, torch.float32), take(1, torch.float32), take(blocks, torch.uint8)]
        size = -(-size // 4) * 4 + 4 * scales_of_scales + 4 + blocks
        take(-size % 64, torch.uint8)
        yield *parts, take(numel, torch.float32), take(numel, torch.bfloat16)
    assert not left


def assert_same_bits(ours, theirs):
    """NaNs, which come from infinities, count as equal: they have many bit patterns."""
    theirs = theirs.flatten()
    assert ours.dtype == theirs.dtype and torch.equal(ours.isnan(), theirs.isnan())
    ours, theirs = (tensor[~tensor.isnan()].view(torch.uint8) for tensor in (ours, theirs))
    assert torch.equal(ours, theirs)


def test_nf4(quantizer):
    tensors = [random_tensor(number) for number in range(TENSORS)]
    for values, (codes, nested_absmax, offset, absmax, whole, narrow) in zip(
            tensors, quantized(quantizer, tensors), strict=True):
        theirs, state = bitsandbytes.functional.quantize_4bit(
            values, blocksize=BLOCK, quant_type="nf4", compress_statistics=True)
        assert_same_bits(codes, theirs)
        assert_same_bits(absmax, state.absmax)
        assert_same_bits(nested_absmax, state.state2.absmax)
        assert_same_bits(offset, state.offset)
        again = bitsandbytes.functional.dequantize_4bit(theirs, state)
        assert_same_bits(whole, again)
        # With AVX512-BF16, bitsandbytes' own rounding makes subnormal numbers 0.
        assert_same_bits(narrow, again.to(torch.bfloat16))
