// Nobody finds a saga by 0.1 + 0.2.
// expected: an attribute is text, a whole number, a bool, a type with a to_string(), or an optional of one
#include <skald/definition.hpp>

#include <cstdint>

struct order
{
    double euros{};
    std::int64_t cents{};
};
constexpr skald::retriable<order> ship{"ship", "shipping"};
#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", ship).attribute<&order::euros>("price");
#else
constexpr auto saga = skald::define("place-order", ship).attribute<&order::cents>("price");
#endif
