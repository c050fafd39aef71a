/** Ids for the tests of a clinic's aggregates. */
export const clinicId = "10000000-0000-4000-8000-000000000001";
export const otherClinicId = "10000000-0000-4000-8000-000000000002";
export const mainBranchId = "10000000-0000-4000-8000-00000000000a";
export const otherBranchId = "10000000-0000-4000-8000-00000000000b";
export const someId = "10000000-0000-4000-8000-0000000000aa";
export const otherId = "10000000-0000-4000-8000-0000000000bb";
