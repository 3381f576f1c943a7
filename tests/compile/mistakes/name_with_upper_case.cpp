// Names travel in headers and are stored: one way to write each.
// expected: a_name_must_begin_with_a_letter_and_have_only_lower_case_letters_digits_and_dashes
#include <skald/definition.hpp>

struct order
{};
#ifdef MISTAKE
constexpr skald::pivot<order> charge{"chargePayment", "payments"};
#else
constexpr skald::pivot<order> charge{"charge-payment", "payments"};
#endif

constexpr auto saga = skald::define("place-order", charge);
