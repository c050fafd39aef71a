/**
 * Types of persons whose personal data the log contains. If an appointment or a queue ticket has no customer, its
 * personal data belongs to the appointment or ticket itself.
 */
const personTypes = ["customer", "staff", "portalUser", "auditor", "appointment", "queueTicket"] as const;
export type PersonType = (typeof personTypes)[number];

/** A person whose personal data is stored (data subject). */
export interface Person {
  type: PersonType;
  id: string;
}

/**
 * Categories of personal data. A category of one person's data is encrypted with one data key, and is erased as a whole.
 *
 * - `contact`: names, phone numbers, email addresses and cities
 * - `animal`: free text about animals
 * - `notes`: reasons, notes, and hashes of requests that contain them
 */
export const personalDataCategories = ["contact", "animal", "notes"] as const;
export type PersonalDataCategory = (typeof personalDataCategories)[number];
