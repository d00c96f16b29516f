//! The element Condition: operators, keys and values.
//!
//! One value of the request matches if it is as one value of the policy; a negated operator wants a value that matches none.
//! Negation comes first, per value, then ForAnyValue or ForAllValues. Without the key, operators are false and negated ones
//! true, ForAllValues is true and ForAnyValue false, and IfExists makes any of them true. For the latter two and for Null, a
//! value that is empty is as none.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::context::Asked;
use crate::context::{TEXT_LEN_MAX, VISIT};
use crate::error::Fault;
use crate::json::Json;
use crate::pattern::{ArnFault, ArnPattern, Case, Pattern, Syntax};
use crate::values::{Network, parse_address, parse_date_ms, parse_number};

#[derive(Debug)]
pub(crate) struct Condition {
    /// In lower case.
    pub key: Box<str>,
    negated: bool,
    if_exists: bool,
    quantifier: Quantifier,
    test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantifier {
    /// The key has one value.
    None,
    AnyValue,
    AllValues,
}

/// The test of a value of the request against the values of the policy.
#[derive(Debug)]
enum Test {
    Text(Vec<Pattern>, Case),
    Arn(Vec<ArnPattern>),
    Number(Compare, Vec<f64>),
    DateMs(Compare, Vec<i64>),
    Bool(Vec<bool>),
    Network(Vec<Network>),
    /// Whether the key is missing.
    Null(Vec<bool>),
}

#[derive(Clone, Copy, Debug)]
enum Compare {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// The kinds of operators.
#[derive(Clone, Copy)]
enum Family {
    Text { wildcards: bool, case: Case },
    Arn,
    Number(Compare),
    Date(Compare),
    Bool,
    Binary,
    Network,
    Null,
}

/// Name, kind, and whether it is negated.
const OPERATORS: [(&str, Family, bool); 27] = {
    use Compare::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    const EXACT: Family = Family::Text { wildcards: false, case: Case::Sensitive };
    const FOLDED: Family = Family::Text { wildcards: false, case: Case::Ignored };
    const LIKE: Family = Family::Text { wildcards: true, case: Case::Sensitive };
    [
        ("StringEquals", EXACT, false),
        ("StringNotEquals", EXACT, true),
        ("StringEqualsIgnoreCase", FOLDED, false),
        ("StringNotEqualsIgnoreCase", FOLDED, true),
        ("StringLike", LIKE, false),
        ("StringNotLike", LIKE, true),
        ("NumericEquals", Family::Number(Equal), false),
        ("NumericNotEquals", Family::Number(Equal), true),
        ("NumericLessThan", Family::Number(Less), false),
        ("NumericLessThanEquals", Family::Number(LessOrEqual), false),
        ("NumericGreaterThan", Family::Number(Greater), false),
        ("NumericGreaterThanEquals", Family::Number(GreaterOrEqual), false),
        ("DateEquals", Family::Date(Equal), false),
        ("DateNotEquals", Family::Date(Equal), true),
        ("DateLessThan", Family::Date(Less), false),
        ("DateLessThanEquals", Family::Date(LessOrEqual), false),
        ("DateGreaterThan", Family::Date(Greater), false),
        ("DateGreaterThanEquals", Family::Date(GreaterOrEqual), false),
        ("Bool", Family::Bool, false),
        ("BinaryEquals", Family::Binary, false),
        ("IpAddress", Family::Network, false),
        ("NotIpAddress", Family::Network, true),
        ("ArnEquals", Family::Arn, false),
        ("ArnLike", Family::Arn, false),
        ("ArnNotEquals", Family::Arn, true),
        ("ArnNotLike", Family::Arn, true),
        ("Null", Family::Null, false),
    ]
};

/// Reads the element Condition. `variables`: the version of the policy has them.
pub(crate) fn parse(element: &Json, variables: bool) -> Result<Vec<Condition>, Fault> {
    let mut conditions = Vec::new();
    let Json::Object(operators) = element else { return Err(Fault::Type("Condition")) };
    for (operator, keys) in operators {
        let Json::Object(keys) = keys else { return Err(Fault::Type("Condition")) };
        for (key, values) in keys {
            conditions.push(Condition::parse(operator, key, values, variables)?);
        }
        if keys.is_empty() {
            read_operator(operator)?;
        }
    }
    Ok(conditions)
}

/// An operator, with the parts that stand before and after its name.
struct Operator {
    quantifier: Quantifier,
    name: &'static str,
    family: Family,
    negated: bool,
    if_exists: bool,
}

fn read_operator(text: &str) -> Result<Operator, Fault> {
    let unknown = || Fault::Operator(text.to_owned());
    let (quantifier, rest) = match text.split_once(':') {
        None => (Quantifier::None, text),
        Some(("ForAnyValue", rest)) => (Quantifier::AnyValue, rest),
        Some(("ForAllValues", rest)) => (Quantifier::AllValues, rest),
        Some(_) => return Err(unknown()),
    };
    let (base, if_exists) = rest.strip_suffix("IfExists").map_or((rest, false), |base| (base, true));
    let known = OPERATORS.into_iter().find(|(name, ..)| *name == base);
    let (name, family, negated) = known.ok_or_else(unknown)?;
    if matches!(family, Family::Null) && (if_exists || quantifier != Quantifier::None) {
        return Err(unknown());
    }
    Ok(Operator { quantifier, name, family, negated, if_exists })
}

impl Condition {
    fn parse(operator: &str, key: &str, values: &Json, variables: bool) -> Result<Self, Fault> {
        let Operator { quantifier, name, family, negated, if_exists } = read_operator(operator)?;
        let has_vendor = key.split_once(':').is_some_and(|(vendor, name)| !vendor.is_empty() && !name.is_empty());
        if !has_vendor {
            return Err(Fault::ConditionKey(key.to_owned()));
        }
        let texts: Option<Vec<String>> = values.items().iter().map(Json::scalar).collect();
        let texts = texts.ok_or(Fault::Type("Condition"))?;
        let test = Test::parse(name, family, &texts, variables)?;
        Ok(Self { key: key.to_ascii_lowercase().into(), negated, if_exists, quantifier, test })
    }

    pub fn holds(&self, asked: &Asked<'_>) -> bool {
        // `count` is of all values, `filled` of those that are not empty.
        let (mut count, mut filled, mut any, mut all) = (0, 0, false, true);
        asked.visit(&self.key, &mut |value| {
            if !asked.steps.take(self.test.steps_of_value(value.len())) {
                return;
            }
            // What is of another type is neither equal nor different.
            let matched = self.test.matches(value, asked).is_some_and(|matched| matched != self.negated);
            count += 1;
            filled += usize::from(!value.is_empty());
            (any, all) = (any | matched, all & matched);
        });
        match (&self.test, self.quantifier) {
            (Test::Null(wanted), _) => wanted.contains(&(filled == 0)),
            _ if count == 0 && self.if_exists => true,
            (_, Quantifier::AllValues) => filled == 0 || all,
            (_, Quantifier::AnyValue) => filled > 0 && any,
            (_, Quantifier::None) if count == 0 => self.negated,
            // Several values of a key that should have one: what is negated must hold for each of them.
            (_, Quantifier::None) if self.negated => all,
            (_, Quantifier::None) => any,
        }
    }

    /// The most steps that it takes with one value of the usual length.
    pub fn steps(&self) -> usize {
        let of_values: usize = match &self.test {
            Test::Text(patterns, _) => patterns.iter().map(|it| it.steps(TEXT_LEN_MAX)).sum(),
            Test::Arn(arns) => arns.iter().map(|it| it.steps(TEXT_LEN_MAX)).sum(),
            _ => 0,
        };
        VISIT + self.test.steps_of_value(TEXT_LEN_MAX) + of_values
    }

    /// Whether it holds for fixed values of its key only, of which there are few enough that not everybody has one.
    pub fn fixes_its_key(&self) -> bool {
        if self.negated || self.if_exists || self.quantifier == Quantifier::AllValues {
            return false;
        }
        match &self.test {
            Test::Text(patterns, _) => patterns.iter().all(Pattern::is_literal),
            Test::Arn(arns) => arns.iter().all(|arn| matches!(arn, ArnPattern::Whole(it) if it.is_literal())),
            Test::Network(networks) => networks.iter().all(Network::is_narrow),
            Test::Number(..) | Test::DateMs(..) | Test::Bool(_) | Test::Null(_) => false,
        }
    }

    /// Keys that variables in its values name.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let patterns: Vec<&Pattern> = match &self.test {
            Test::Text(patterns, _) => patterns.iter().collect(),
            Test::Arn(arns) => arns.iter().flat_map(ArnPattern::patterns).collect(),
            _ => Vec::new(),
        };
        patterns.into_iter().flat_map(Pattern::variables)
    }
}

impl Test {
    fn parse(operator: &'static str, family: Family, texts: &[String], variables: bool) -> Result<Self, Fault> {
        fn each<T>(texts: &[String], read: impl Fn(&str) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
            texts.iter().map(|text| read(text)).collect()
        }
        let bad = |text: &str| Fault::ConditionValue(operator, text.to_owned());
        Ok(match family {
            Family::Text { wildcards, case } => {
                let syntax = Syntax { wildcards, variables };
                let small = |text: &str| if case == Case::Ignored { text.to_lowercase() } else { text.to_owned() };
                let read =
                    |text: &str| Pattern::parse(&small(text), syntax).ok_or_else(|| Fault::Variable(text.to_owned()));
                Self::Text(each(texts, read)?, case)
            }
            Family::Binary => {
                let syntax = Syntax { wildcards: false, variables: false };
                Self::Text(each(texts, |text| Pattern::parse(text, syntax).ok_or_else(|| bad(text)))?, Case::Sensitive)
            }
            Family::Arn => Self::Arn(each(texts, |text| {
                ArnPattern::parse(text, variables).map_err(|fault| match fault {
                    ArnFault::Variable => Fault::Variable(text.to_owned()),
                    ArnFault::NotArn | ArnFault::Short => bad(text),
                })
            })?),
            Family::Number(compare) => {
                Self::Number(compare, each(texts, |text| parse_number(text).ok_or_else(|| bad(text)))?)
            }
            Family::Date(compare) => Self::DateMs(
                compare,
                each(texts, |text| parse_date_ms(text).ok_or_else(|| Fault::Date(text.to_owned())))?,
            ),
            Family::Bool => Self::Bool(each(texts, |text| parse_bool(text).ok_or_else(|| bad(text)))?),
            Family::Null => Self::Null(each(texts, |text| parse_bool(text).ok_or_else(|| bad(text)))?),
            Family::Network => {
                let read = |text: &str| Network::parse(text).ok_or_else(|| Fault::Address(text.to_owned()));
                Self::Network(each(texts, read)?)
            }
        })
    }

    /// To read a value, and to compare it with each of the policy where that takes next to nothing.
    fn steps_of_value(&self, len: usize) -> usize {
        let count = match self {
            Self::Text(values, _) => values.len(),
            Self::Arn(values) => values.len(),
            Self::Number(_, values) => values.len(),
            Self::DateMs(_, values) => values.len(),
            Self::Bool(values) | Self::Null(values) => values.len(),
            Self::Network(values) => values.len(),
        };
        1 + len / 16 + count
    }

    /// Whether a value of the request is as one of the policy. `None` for a value of another type.
    fn matches(&self, value: &str, asked: &Asked<'_>) -> Option<bool> {
        Some(match self {
            Self::Text(patterns, case) => {
                // ASCII is compared without case; other letters have been made small on both sides.
                let is_plain = *case == Case::Sensitive || value.is_ascii();
                let value = if is_plain { Cow::Borrowed(value) } else { value.to_lowercase().into() };
                patterns.iter().any(|it| it.matches(value.as_bytes(), *case, asked))
            }
            Self::Arn(arns) => {
                let is_arn = value.starts_with("arn:") && value.bytes().filter(|&byte| byte == b':').count() >= 5;
                is_arn.then(|| arns.iter().any(|arn| arn.matches(value.as_bytes(), asked)))?
            }
            Self::Number(compare, numbers) => {
                let value = parse_number(value)?;
                numbers.iter().any(|number| value.partial_cmp(number).is_some_and(|order| compare.holds(order)))
            }
            Self::DateMs(compare, dates) => {
                let value = parse_date_ms(value)?;
                dates.iter().any(|date| compare.holds(value.cmp(date)))
            }
            Self::Bool(wanted) => wanted.contains(&parse_bool(value)?),
            Self::Network(networks) => {
                let address = parse_address(value)?;
                networks.iter().any(|network| network.contains(address))
            }
            Self::Null(_) => false,
        })
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}
