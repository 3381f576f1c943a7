-- A database and a role for each service; run once, when the server's volume is new.
CREATE ROLE orders LOGIN PASSWORD 'orders';
CREATE ROLE payments LOGIN PASSWORD 'payments';
CREATE ROLE shipping LOGIN PASSWORD 'shipping';
CREATE DATABASE orders OWNER orders;
CREATE DATABASE payments OWNER payments;
CREATE DATABASE shipping OWNER shipping;
