// The depot, whose insides a test reaches: it may process deliveries together, on lanes, or on a store of its own.
#pragma once

#include "support/parcels.hpp"
#include "support/stepped_services.hpp"

#include <string>

namespace skald::test {

/// One service with all four steps; each may be replaced before the saga starts.
class depot : public stepped_services, public depot_scripts
{
public:
    depot() : stepped_services{{"depot"}} { db().run("CREATE TABLE effect (n serial, what text)"); }

    skald::test::database const& db() { return at("depot").db; }

    void host()
    {
        at("depot").host(send, steps::pack, scripted{"pack", pack});
        at("depot").host(send, steps::weigh, scripted{"weigh", weigh, undo_weigh});
        at("depot").host(send, steps::load, scripted_pivot{load});
        at("depot").host(send, steps::sign, scripted_retriable{sign});
    }

    void go(std::string const& key = "k")
    {
        host();
        start(send, parcel{"p", 7}, key);
        run();
    }

    std::string effects() { return db().one(effects_in_order); }
    std::string record(std::string const& step) { return db().one(record_of(step)); }
};

}  // namespace skald::test
