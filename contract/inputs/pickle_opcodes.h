#pragma once

#include <cstdint>

namespace fsdp {

// The opcodes in a pickle of tensors, protocol 2. Python's Lib/pickletools.py describes each.
enum class Opcode : uint8_t {
  kProtocol = 0x80,
  kStop = '.',
  kMark = '(',
  kPut = 'q',
  kLongPut = 'r',
  kGet = 'h',
  kLongGet = 'j',
  kGlobal = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kPersistentId = 'Q',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt = 'J',
  kInt1 = 'K',
  kInt2 = 'M',
  kLong1 = 0x8a,
  kFloat = 'G',
  kText = 'X',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDictionary = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
};

}  // namespace fsdp
