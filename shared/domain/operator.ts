import { type Aggregate, createRecorder, type Decision, defineAggregate } from "./aggregate.ts";
import type { DataOf } from "./events/category.ts";
import { type OperatorEvent, operatorStreams } from "./events/operator.ts";
import { refuseExisting, requireExisting, requireFutureExpiry } from "./preconditions.ts";

/** State of an operator that runs commands over HTTP. */
export type Operator = Omit<DataOf<OperatorEvent, "OperatorRegistered">, "operatorId"> & {
  id: string;
  revoked: boolean;
};

export const operatorAggregate: Aggregate<typeof operatorStreams, Operator> = defineAggregate(
  operatorStreams,
  { OperatorRegistered: ({ operatorId: id, ...registration }) => ({ id, ...registration, revoked: false }) },
  { OperatorRevoked: () => ({ revoked: true }) },
);

/**
 * Registers an operator with one credential. The credential and its scope are fixed. For another scope, register another
 * operator.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `operator_exists`, `expiry_passed`
 */
export function registerOperator(
  data: DataOf<OperatorEvent, "OperatorRegistered">,
  now: number,
): Decision<Operator, OperatorEvent> {
  return (state) => {
    refuseExisting(state, "operator");
    requireFutureExpiry(data, now);
    return [{ type: "OperatorRegistered", data }];
  };
}

/** Revokes an operator permanently. Revoking a revoked operator changes nothing. */
export const revokeOperator = createRecorder(operatorAggregate, (state) => requireExisting(state, "operator"))(
  "OperatorRevoked",
  ({ revoked }) => !revoked,
);
