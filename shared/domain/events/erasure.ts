import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import { personalDataCategories } from "../personal-data/person.ts";
import { label } from "./fields.ts";

export const personalDataCategorySchema = z.enum(personalDataCategories);

const categories = z.array(personalDataCategorySchema);

/** Schema of the erased categories of a person; see `ErasedData`. */
export const erasedData = { erasedCategories: categories, finalCategories: categories };

/** Fields that every event about an erasure of personal data contains. */
export const erasureRecord = {
  categories: categories.min(1),
  /** `request`: the person or the clinic asked for the erasure. `retention`: a retention period of the clinic ended. */
  cause: z.enum(["request", "retention"]),
  reason: notPersonal(label, "operator's reason for the erasure, which stays readable"),
};
