#include "support/stepped_shop.hpp"

#include "order_tables.hpp"

namespace skald::test {

void stepped_shop::create_tables()
{
    using namespace order_saga;
    at("orders").db.run(std::string{tables::orders});
    at("payments").db.run(std::string{tables::payments} + "INSERT INTO wallet VALUES ('ann', 1000)");
    at("shipping").db.run(std::string{tables::shipping} + "INSERT INTO stock VALUES ('pen', 5)");
}

}  // namespace skald::test
