// The result of one of the kit's assertions: true or false, and the sentences that a failed test should print.
//
// It needs only what every test framework has: a value that is true or false, and `<<`.
//
//     CHECK(shop.saga_is("order-42", "completed"));                  // doctest, Catch2
//     auto const is = shop.saga_is("order-42", "completed");
//     EXPECT_TRUE(is) << is;                                         // GoogleTest
#pragma once

#include <ostream>
#include <string>
#include <utility>

namespace skald::testing {

/// True if the expectation holds.
class [[nodiscard]] check_result
{
public:
    static check_result success() { return {true, "as expected"}; }                     // for checks of your own
    static check_result failure(std::string text) { return {false, std::move(text)}; }  // likewise

    explicit operator bool() const { return passed_; }  // for assertions
    bool passed() const { return passed_; }             // the same by name

    /// What was expected, and what was found instead.
    std::string const& text() const { return text_; }

    /// Prints text().
    friend std::ostream& operator<<(std::ostream& out, check_result const& result) { return out << result.text_; }

private:
    check_result(bool passed, std::string text) : passed_{passed}, text_{std::move(text)} {}

    bool passed_;
    std::string text_;
};

}  // namespace skald::testing
