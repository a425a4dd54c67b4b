// The table of labels for values that are numbers.

function regressionColumns() {
  const { regression } = figures;
  const means = decode(regression.label_means), predictions = decode(regression.label_predictions), deviances = decode(regression.label_deviances);
  const four = (value) => short(value, 4);
  return [
    { key: "observed", name: "observed", title: "observed entries", values: () => labelObserved, format: whole },
    { key: "mean", name: "mean value", title: "mean of the observed values", values: () => means, format: four },
    { key: "prediction", name: "mean prediction", title: "mean prediction at the observed entries", values: () => predictions, format: four },
    { key: "deviance", name: "deviance", title: "mean misfit of an entry; lower is better", values: () => deviances, format: four },
  ];
}
