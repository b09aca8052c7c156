-- How far an application has written is its newest row of dl_txn_actions.
drop table dl_txns;
