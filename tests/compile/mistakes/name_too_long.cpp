// A name has 48 characters at most.
// expected: a_name_must_begin_with_a_letter_and_have_only_lower_case_letters_digits_and_dashes_at_most_48
#include <skald/definition.hpp>

struct order
{};
constexpr skald::pivot<order> charge{"charge", "payments"};

#ifdef MISTAKE
constexpr auto saga = skald::define("a234567890123456789012345678901234567890123456789", charge);
#else
constexpr auto saga = skald::define("a23456789012345678901234567890123456789012345678", charge);
#endif
