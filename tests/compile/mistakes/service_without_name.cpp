// A service's name is a routing key and the name of a queue.
// expected: a_name_must_begin_with_a_letter_and_have_only_lower_case_letters_digits_and_dashes
#include <skald/definition.hpp>

struct order
{};
#ifdef MISTAKE
constexpr skald::pivot<order> charge{"charge", ""};
#else
constexpr skald::pivot<order> charge{"charge", "payments"};
#endif

constexpr auto saga = skald::define("place-order", charge);
