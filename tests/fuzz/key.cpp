// The value of an Idempotency-Key header: whatever it is, it is one key or a reason why not.
#include <algorithm>
#include <string>

#include "demand.hpp"
#include "entry/idempotency_key.hpp"

using namespace skald;
using skald::fuzz::demand;

namespace {

std::string quoted(std::string_view key)
{
    std::string text{'"'};
    for (char const c : key) {
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return text += '"';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    auto const key = entry_detail::parse_idempotency_key(fuzz::text_of(data, size));
    if (!key) {
        demand(key.value.empty(), "what is refused has no key");
        return 0;
    }
    demand(!key.value.empty() && key.value.size() <= entry_detail::idempotency_key_bytes_max,
           "a key has 1 to 180 bytes");
    demand(std::ranges::all_of(key.value, [](char c) { return c >= 0x20 && c <= 0x7e; }), "a key is printable ASCII");
    for (auto const& again : {quoted(key.value), ' ' + quoted(key.value) + "; v=1\t"}) {
        auto const same = entry_detail::parse_idempotency_key(again);
        demand(same && same.value == key.value, "a key that is quoted is the same key");
    }
    auto const two = entry_detail::parse_idempotency_key(quoted(key.value) + ", " + quoted(key.value));
    demand(!two, "two keys are none");
    return 0;
}
