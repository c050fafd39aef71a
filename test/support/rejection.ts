import { expect } from "chai";

/** Returns the error of a promise. Fails if the promise is fulfilled. */
export const getRejection = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.fail("the promise should be rejected"),
    (error: Error) => error,
  );
