// What stands on a page, as a service: its blocks run one after the other, and then a worker runs
// the service that they have built.
#include SKALD_PAGE

#include <cstdlib>
#include <utility>

int main(int argc, char** argv)
{
    skald::service service{SKALD_SERVICE};
    pqxx::connection connection{std::getenv("DATABASE_URL")};
    run_all(connection, service);
    return skald::run_service(std::move(service), argc, argv);
}
