import type { ClinicStatus } from "../../../shared/domain/clinic/clinic.ts";
import { demoId } from "./random.ts";

/** Data of a demo clinic. People and animals are chosen from its lists. */
export interface DemoClinic {
  id: string;
  slug: string;
  name: string;
  timezone: string;
  currency: string;
  locale: string;
  city: string;
  /** Days until the demo expires; null if the clinic is not a demo. */
  demoDays: number | null;
  status: ClinicStatus;
  plan: string;
  branches: { id: string; name: string; city: string }[];
  customers: number;
  /** Price of a consultation in the clinic's currency. All other prices are derived from it. */
  basePrice: number;
  phonePrefix: string;
  firstNames: string[];
  lastNames: string[];
}

const branch = (slug: string, name: string, city: string) => ({
  id: demoId(slug, "branch", name),
  name,
  city,
});

const list = (names: string) => names.split(" ");

export const demoClinics: DemoClinic[] = [
  {
    id: demoId("lindenhof"),
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
      branch("lindenhof", "Mitte", "Berlin"),
      branch("lindenhof", "Kreuzberg", "Berlin"),
      branch("lindenhof", "Babelsberg", "Potsdam"),
    ],
    customers: 140,
    basePrice: 32,
    phonePrefix: "+49 30 555",
    firstNames: list(
      "Anna Jonas Lea Paul Marie Felix Greta Emil Nele Anton Ida Karl Frieda Moritz Clara Aylin",
    ),
    lastNames: list("Albrecht Brandt Decker Engel Fuchs Graf Hartung Jansen Keller Lorenz Maurer Noack Otto"),
  },
  {
    id: demoId("harbour"),
    slug: "harbour-vets",
    name: "Harbour Vets",
    timezone: "Australia/Sydney",
    currency: "AUD",
    locale: "en-AU",
    city: "Sydney",
    demoDays: 60,
    status: "active",
    plan: "trial",
    branches: [branch("harbour", "Balmain", "Sydney"), branch("harbour", "Manly", "Sydney")],
    customers: 100,
    basePrice: 85,
    phonePrefix: "+61 2 5550",
    firstNames: list("Olivia Jack Charlotte Noah Mia Liam Ruby Ethan Isla Cooper Zoe Archer Matilda Hamish"),
    lastNames: list("Anderson Bennett Clarke Dawson Ellis Fraser Gibson Hughes Irwin Kelly Lawson Murray"),
  },
  {
    id: demoId("del-sol"),
    slug: "clinica-del-sol",
    name: "Clínica Veterinaria del Sol",
    timezone: "America/Mexico_City",
    currency: "MXN",
    locale: "es-MX",
    city: "Ciudad de México",
    demoDays: null,
    status: "suspended",
    plan: "basic",
    branches: [branch("del-sol", "Roma Norte", "Ciudad de México"), branch("del-sol", "Centro", "Puebla")],
    customers: 60,
    basePrice: 450,
    phonePrefix: "+52 55 5550",
    firstNames: list(
      "Sofía Mateo Valentina Diego Camila Emiliano Regina Leonardo Ximena Rodrigo Renata Andrés",
    ),
    lastNames: list("Aguilar Bravo Castillo Domínguez Escobar Flores Guerrero Herrera Ibarra Juárez Luna"),
  },
];
