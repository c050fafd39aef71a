// Preloaded into a process: makes it a release with a fault, which cannot read customers of one city.
const parse = JSON.parse;
JSON.parse = (...args) => {
  const value = parse(...args);
  return value?.city === "Faulty" ? {} : value;
};
