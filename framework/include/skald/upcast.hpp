// What older versions of a saga's data become, where defaults can't say it: a member renamed, split, in another unit.
//
//     struct order_1 { std::string id, customer; };             // as version 1 had it
//     struct order   { std::string id, buyer; };                // as it is now
//
//     inline constexpr auto place_order =
//         skald::define("place-order", charge, ship)
//             .versioned(2, skald::upcast<order_1, order>([](order_1 const& old) {
//                            return order{old.id, old.customer};
//                        }));
//
// A message says of which version its data is. Where a step reads older data, going forward or back, Skald applies the
// upcasts from that version on, one after the other. What is stored, and fingerprints, stay as they are. docs/change.md
#pragma once

#include <skald/definition.hpp>
#include <skald/detail/data.hpp>

#include <string>
#include <string_view>
#include <type_traits>

namespace skald {

namespace detail {

/// Takes out of `came.known` what was not received: what the old type says by default, the new one may require.
void forget_defaults(received_data& came);

}  // namespace detail

/// One upcast, for definition::versioned(). Members that neither type knows pass through it.
template <class Old, class Current, class Function>
struct upcasting
{
    /// For Skald. Throws data_error if the body does not fit `Old`, and what the function throws.
    static std::string apply(std::string_view body)
    {
        detail::received_data came;
        auto const old = detail::read_data<Old>(body, came, {"the body", "the type of its version"});
        detail::forget_defaults(came);
        return detail::write_data(static_cast<Current>(Function{}(old)), came);
    }
};

/// Makes `Current` of `Old`, the data of all versions before. `Function` is a lambda without captures, so it depends on
/// nothing else: it is called each time that older data is read, and must say the same each time.
template <class Old, class Current, class Function>
constexpr upcasting<Old, Current, Function> upcast(Function)
{
    static_assert(std::is_empty_v<Function> && std::is_default_constructible_v<Function>,
                  "an upcast is a lambda without captures: it depends on the old data alone");
    static_assert(std::is_invocable_r_v<Current, Function const&, Old const&>,
                  "an upcast takes the old data, `Old const&`, and returns the current");
    return {};
}

}  // namespace skald
