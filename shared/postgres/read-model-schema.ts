/**
 * Schema of the read models of this release. A release that changes tables or rows of the read models gives the schema a
 * new name, such as `read_model_2`. Both releases can then run at the same time, each with its own read models.
 */
export const READ_MODEL_SCHEMA = "read_model_1";
