// Nor is a saga started with data that has none.
// expected: put NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE
#include <skald/start.hpp>

#include <string>

struct address
{
    std::string street;
};
#ifndef MISTAKE
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(address, street)
#endif
struct order
{
    std::string id;
    address to;
};
#ifndef MISTAKE
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id, to)
#endif

inline constexpr skald::pivot<order> ship{"ship", "shipping"};
inline constexpr auto send = skald::define("send", ship);

void begin(pqxx::transaction_base& tx)
{
    static_cast<void>(skald::start(tx, send, order{"o", {"a street"}}));
}
