import type { ClinicStatus } from "../../../shared/domain/clinic/clinic.ts";
import { deriveDemoId } from "./steps.ts";

/** A clinic of the demo data, with lists of first and last names for its people. */
export interface DemoClinic {
  id: string;
  slug: string;
  name: string;
  timezone: string;
  currency: string;
  locale: string;
  city: string;
  /** Null if the clinic is not a demo. */
  demoDays: number | null;
  status: ClinicStatus;
  plan: string;
  branches: { id: string; name: string; city: string }[];
  customerCount: number;
  /** Price of a consultation in the clinic's currency. The prices of all services are multiples of this price. */
  basePrice: number;
  phonePrefix: string;
  firstNames: string[];
  lastNames: string[];
}

const createBranch = (slug: string, name: string, city: string) => ({
  id: deriveDemoId(slug, "branch", name),
  name,
  city,
});

const splitNames = (names: string) => names.split(" ");

export const demoClinics: DemoClinic[] = [
  {
    id: deriveDemoId("lindenhof"),
    slug: "tierklinik-lindenhof",
    name: "Tierklinik Lindenhof",
    timezone: "Europe/Berlin",
    currency: "EUR",
    locale: "de-DE",
    city: "Berlin",
    demoDays: null,
    status: "active",
    plan: "professional",
    branches: [
      createBranch("lindenhof", "Mitte", "Berlin"),
      createBranch("lindenhof", "Kreuzberg", "Berlin"),
      createBranch("lindenhof", "Babelsberg", "Potsdam"),
    ],
    customerCount: 140,
    basePrice: 32,
    phonePrefix: "+49 30 555",
    firstNames: splitNames("Anna Jonas Lea Paul Marie Felix Greta Emil Nele Anton Ida Karl Frieda Moritz Clara Aylin"),
    lastNames: splitNames("Albrecht Brandt Decker Engel Fuchs Graf Hartung Jansen Keller Lorenz Maurer Noack Otto"),
  },
  {
    id: deriveDemoId("harbour"),
    slug: "harbour-vets",
    name: "Harbour Vets",
    timezone: "Australia/Sydney",
    currency: "AUD",
    locale: "en-AU",
    city: "Sydney",
    demoDays: 60,
    status: "active",
    plan: "trial",
    branches: [createBranch("harbour", "Balmain", "Sydney"), createBranch("harbour", "Manly", "Sydney")],
    customerCount: 100,
    basePrice: 85,
    phonePrefix: "+61 2 5550",
    firstNames: splitNames("Olivia Jack Charlotte Noah Mia Liam Ruby Ethan Isla Cooper Zoe Archer Matilda Hamish"),
    lastNames: splitNames("Anderson Bennett Clarke Dawson Ellis Fraser Gibson Hughes Irwin Kelly Lawson Murray"),
  },
  {
    id: deriveDemoId("del-sol"),
    slug: "clinica-del-sol",
    name: "Clínica Veterinaria del Sol",
    timezone: "America/Mexico_City",
    currency: "MXN",
    locale: "es-MX",
    city: "Ciudad de México",
    demoDays: null,
    status: "suspended",
    plan: "basic",
    branches: [createBranch("del-sol", "Roma Norte", "Ciudad de México"), createBranch("del-sol", "Centro", "Puebla")],
    customerCount: 60,
    basePrice: 450,
    phonePrefix: "+52 55 5550",
    firstNames: splitNames("Sofía Mateo Valentina Diego Camila Emiliano Regina Leonardo Ximena Rodrigo Renata Andrés"),
    lastNames: splitNames("Aguilar Bravo Castillo Domínguez Escobar Flores Guerrero Herrera Ibarra Juárez Luna"),
  },
];
